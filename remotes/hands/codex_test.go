package hands

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/codex/versions"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/test/codexes"
	"codex-proxy/test/modelserver"
)

const (
	enough    = time.Minute
	sessionID = "abcdefghijklmnop"
	tokenTest = "0123456789abcdef0123456789abcdef"
	// tokenOfCodex is the one by which codex reaches the relay.
	tokenOfCodex = "of-codex"
)

// The exec-server of each codex that remotes take: commands and files of clients, and the commands of its own codex
// behind the relay.
func TestCodex(t *testing.T) {
	codexes.Each(t, versions.OldestForRemotes, func(t *testing.T, _ int, program string) {
		b := newBed(t, program)
		t.Run("a command of a client", b.testCommand)
		t.Run("a command that is given up", b.testTerminate)
		t.Run("files", b.testFiles)
		t.Run("a command of codex", func(t *testing.T) { b.testRelay(t, program) })
	})
}

// The same elsewhere, without codex-runner: the next main process ends what an earlier codex has started there.
func TestElsewhere(t *testing.T) {
	codexes.Each(t, client.OldestExecServer, func(t *testing.T, _ int, program string) {
		dir, err := os.MkdirTemp("/var/tmp", "hands")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		b := &bed{dir: dir}
		_, address := execServer(t, program, dir)
		renew := func(token string) {
			b.Hands, err = New(Options{Mark: "codex-remote@build", Dir: dir, Logger: slog.New(slog.NewJSONHandler(&b.log, nil)),
				Elsewhere: &Elsewhere{URL: "ws://" + address, Token: token}})
			require.NoError(t, err)
		}
		renew(strings.Repeat("x", client.LeastToken))
		require.ErrorContains(t, b.Open(b.bound(t)), "the token is refused")
		renew(tokenTest)
		server, err := b.Elsewhere.Ask(b.bound(t))
		require.NoError(t, err)
		require.NoError(t, server.tooOld())
		t.Logf("%+v", server)
		require.NoError(t, b.Open(b.bound(t)))
		t.Run("a command of a client", b.testCommand)
		t.Run("a command of codex", func(t *testing.T) { b.testRelay(t, program) })

		ws, err := b.Elsewhere.dial(b.bound(t)) // as codex, through the relay, in a process that is killed
		require.NoError(t, err)
		c := &connection{ws: ws}
		server, err = c.greet(b.bound(t), nil)
		require.NoError(t, err)
		b.took.began(server.Session)
		for _, script := range []string{"true", "echo $$ >pid.new; mv pid.new pid; exec sleep 1000"} {
			p := running{id: fmt.Sprint(len(script)), process: Process{Command: Command{Dir: dir, Argv: []string{"/bin/sh", "-c", script}}}}
			b.took.started(server.Session, p.id)
			_, err = c.call(b.bound(t), startMethod, p.params(), nil)
			require.NoError(t, err)
		}
		pid := filepath.Join(dir, "pid")
		require.Eventually(t, func() bool { _, err := os.Stat(pid); return err == nil }, enough, 5*time.Millisecond)
		text, err := os.ReadFile(pid)
		require.NoError(t, err)
		for id, want := range map[string]string{server.Session: "attached", "x": unknownSession} {
			again, err := b.Elsewhere.dial(b.bound(t))
			require.NoError(t, err)
			_, err = (&connection{ws: again}).greet(b.bound(t), &id)
			require.ErrorContains(t, err, want)
			_ = again.CloseNow()
		}
		c.close()
		renew(tokenTest)
		require.Len(t, b.took.all()[len(b.took.all())-1].Processes, 2)
		require.NoError(t, b.Open(b.bound(t)))
		assert.NoDirExists(t, filepath.Join("/proc", strings.TrimSpace(string(text))), "it has ended before codex starts")
		assert.Empty(t, b.took.all())
	})
}

// bed has an exec-server behind a socket that plays codex-runner's.
type bed struct {
	*Hands
	dir string // of its files
	log journal
}

// journal is written while it is read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func newBed(t testing.TB, program string) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "hands") // codex makes its helpers in no directory for temporary files
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bed{dir: dir}
	socket := filepath.Join(dir, "runner.sock")
	_, address := execServer(t, program, dir)
	playRunner(t, socket, address)
	b.Hands, err = New(Options{Mark: "codex-remote@build", Client: client.New(socket), Dir: dir,
		Logger: slog.New(slog.NewJSONHandler(&b.log, nil))})
	require.NoError(t, err)
	b.record.Session, b.token = sessionID, tokenTest
	return b
}

// execServer starts the exec-server as sessions do, on a port of its own, and returns it and its address.
func execServer(t testing.TB, program, dir string) (*os.Process, string) {
	t.Helper()
	args := client.ExecServer(program, tokenTest).Args
	for i, arg := range args {
		if strings.HasPrefix(arg, "ws://") {
			args[i] = "ws://127.0.0.1:0"
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir = append(os.Environ(), "CODEX_HOME="+dir, "HOME="+dir), dir
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "it prints its address")
	return cmd.Process, strings.TrimPrefix(strings.TrimSpace(line), "ws://")
}

// playRunner serves the port of the session at address, as codex-runner does.
func playRunner(t testing.TB, socket, address string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	var streams errgroup.Group
	server := &http.Server{ReadHeaderTimeout: enough, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, fmt.Sprintf("/v1/sessions/%s/ports/%d", sessionID, client.ExecServerPort), r.URL.Path)
		port, err := net.Dial("tcp", address)
		if !assert.NoError(t, err) {
			return
		}
		conn, from, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", wire.PortProtocol)
		stream := wire.NewPortStream(conn, from)
		streams.Go(func() error { _, err := io.Copy(stream, port); conn.Close(); return err })
		streams.Go(func() error { _, err := io.Copy(port, stream); port.Close(); return err })
	})}
	streams.Go(func() error { return server.Serve(l) })
	t.Cleanup(func() { _ = server.Close(); _ = streams.Wait() })
}

func (b *bed) bound(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	t.Cleanup(cancel)
	return ctx
}

func (b *bed) testCommand(t *testing.T) {
	p := Process{Cap: 1 << 10, Env: map[string]string{"WORD": "hello"}, Command: Command{Dir: b.dir,
		Argv: []string{"/bin/sh", "-c", `echo "$WORD"; pwd; echo err >&2; exit 3`}}}
	e, err := b.Execute(b.bound(t), p)
	require.NoError(t, err)
	assert.Equal(t, 3, e.Status)
	assert.Equal(t, "hello\n"+b.dir+"\n", string(e.Stdout))
	assert.Equal(t, "err\n", string(e.Stderr))
	assert.Contains(t, b.log.String(), `"command":"/bin/sh -c echo \"$WORD\"`)

	p.Cap = 3
	e, err = b.Execute(b.bound(t), p)
	require.NoError(t, err)
	assert.True(t, e.Cut)
	assert.Equal(t, "hel", string(e.Stdout))
}

func (b *bed) testTerminate(t *testing.T) {
	ctx, cancel := context.WithCancel(b.bound(t))
	file := filepath.Join(b.dir, "pid")
	var ended errgroup.Group
	ended.Go(func() error {
		_, err := b.Execute(ctx, Process{Command: Command{Dir: b.dir,
			Argv: []string{"/bin/sh", "-c", "echo $$ >pid.new; mv pid.new pid; exec sleep 1000"}}})
		return err
	})
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, enough, 5*time.Millisecond, "it runs")
	cancel()
	require.ErrorIs(t, ended.Wait(), context.Canceled)
	pid, err := os.ReadFile(file)
	require.NoError(t, err)
	gone := filepath.Join("/proc", strings.TrimSpace(string(pid)))
	require.Eventually(t, func() bool { _, err := os.Stat(gone); return err != nil }, enough, 5*time.Millisecond, "it ends")
}

func (b *bed) testFiles(t *testing.T) {
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "a file"), []byte("text"), 0o600))
	g := &Gate{Hands: b.Hands}
	for method, want := range map[string]string{
		"fs/readFile": `"dGV4dA=="`, "fs/getMetadata": `"isFile":true`, "fs/readDirectory": `"a file"`,
	} {
		at := b.dir
		if method != "fs/readDirectory" {
			at += "/a file"
		}
		params, err := json.Marshal(pathParams{at})
		require.NoError(t, err)
		result, err := g.about(b.bound(t), method, params)
		require.NoError(t, err, method)
		assert.Contains(t, string(result), want, method)
	}
	_, err := g.about(b.bound(t), "fs/readFile", []byte(`{"path":"/nonexistent"}`))
	require.ErrorContains(t, err, "No such file")
}

// testRelay has the codex run a turn whose command the exec-server executes: the journal has it.
func (b *bed) testRelay(t *testing.T, program string) {
	model, home := modelserver.Start(t, "gpt-5.5"), filepath.Join(b.dir, "home")
	writeHome(t, home, model, b.relay(t), tokenOfCodex)
	require.NoError(t, model.Script(`call exec_command {"cmd":"echo made >by-codex","login":false}`))
	require.NoError(t, model.Script("text done"))
	before := b.Commands()
	cmd := exec.CommandContext(b.bound(t), program, "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-C", b.dir, "go")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home, "HOME="+home)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := os.ReadFile(filepath.Join(b.dir, "by-codex"))
	require.NoError(t, err, string(out))
	assert.Equal(t, "made\n", string(text))
	assert.Greater(t, b.Commands(), before, "the relay sees the command")
	assert.Contains(t, b.log.String(), "echo made >by-codex")
}

// relay serves codex until the test ends, and returns its address.
func (b *bed) relay(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- (&Relay{Hands: b.Hands, Token: tokenOfCodex}).Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-served) })
	return l.Addr().String()
}

// writeHome makes a home of codex. Without an address of an exec-server codex executes commands itself.
func writeHome(t testing.TB, home string, model *modelserver.Server, address, token string) {
	t.Helper()
	files := map[string]string{
		"config.toml": fmt.Sprintf("model = \"gpt-5.5\"\nmodel_provider = \"loop\"\ncheck_for_update_on_startup = false\n"+
			"[model_providers.loop]\nname = \"loop\"\nbase_url = \"%s/v1\"\nwire_api = \"responses\"\nsupports_websockets = false\n", model.URL()),
	}
	if address != "" {
		files["environments.toml"] = fmt.Sprintf("default = \"hands\"\ninclude_local = false\n[[environments]]\nid = \"hands\"\n"+
			"url = \"ws://%s\"\nauth_bearer_token = \"%s\"\n", address, token)
	}
	require.NoError(t, os.Mkdir(home, 0o700))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
}
