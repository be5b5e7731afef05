package remoteexec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/rpc"
	"codex-proxy/internal/cli"
	"codex-proxy/remotes/namespaces"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/test/modelserver"
)

const (
	// patience bounds all waits.
	patience = 5 * time.Minute
	// someone is a user without privileges: that of the remote, and of all that the tests look for.
	someone = 45679
	secret  = "sk-SECRET-key"
)

// TestMain plays the commands of the unit, too.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	var err error
	switch {
	case os.Getpid() == 1: // of the namespaces
		var status int
		if status, err = namespaces.Init(os.Args[1], os.Args[3:]); err == nil {
			err = cli.Exit(status, nil)
		}
	case os.Args[1] == "remote-exec":
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		u := &Unit{Name: os.Args[2], Version: "test", Key: os.Stdin, Init: "/proc/self/exe", Stderr: os.Stderr,
			File:   os.Getenv("CONFIGURATION_DIRECTORY") + "/remotes/" + os.Args[2] + ".toml",
			Logins: os.Getenv("CONFIGURATION_DIRECTORY") + "/../logins.sock",
			Home:   os.Getenv("CODEX_HOME"), Runtime: os.Getenv("RUNTIME_DIRECTORY")}
		err = u.Run(ctx)
	default:
		os.Exit(m.Run())
	}
	os.Exit(status(err))
}

// machine is a shell line that gives the machine the directory /etc/codex, which the package has, and becomes a command
// of the unit.
const machine = `mkdir -p $1/over; mount -t tmpfs none $1/over; mkdir -p $1/over/up/codex $1/over/work
mount -t overlay none -o lowerdir=/etc,upperdir=$1/over/up,workdir=$1/over/work /etc
if [ -e $1/hosts ]; then cp $1/hosts /etc/hosts; fi
exec setpriv --reuid=$2 --regid=$2 --clear-groups -- $1/program $3 build`

// bed is a machine with one remote, whose unit is played without systemd.
type bed struct {
	t      *testing.T
	dir    string
	codex  string // the program
	models *modelserver.Server
	sent   *requests // as the provider gets them
	env    []string
	log    output
	cmd    *exec.Cmd
	ended  chan struct{}
	people string
	socket *net.UnixListener
	notify *net.UnixConn
}

// requests are the headers of requests to the provider.
type requests struct {
	mu   sync.Mutex
	auth []string
}

func (r *requests) record(h http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.auth = append(r.auth, h.Get("Authorization"))
}

func (r *requests) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.auth) == 0 {
		return ""
	}
	return r.auth[len(r.auth)-1]
}

// newBed prepares a remote with further keys in its file.
func newBed(t *testing.T, keys string) *bed {
	t.Helper()
	codex := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if codex == "" || os.Getuid() != 0 {
		if os.Getenv("CODEX_PROXY_TEST_REQUIRE") == "1" && codex == "" {
			t.Fatal("CODEX_PROXY_TEST_CODEX is not set")
		}
		t.Skip("needs root and CODEX_PROXY_TEST_CODEX")
	}
	dir, err := os.MkdirTemp("/opt", "remote")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bed{t: t, dir: dir, models: modelserver.Start(t), sent: &requests{}, people: dir + "/people.sock"}
	for _, name := range []string{"etc/remotes", "home", "run", "work"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	codex, err = filepath.EvalSymlinks(codex)
	require.NoError(t, err)
	program, err := os.MkdirTemp("/opt", "codex") // where someone may read, and not write
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(program) })
	require.NoError(t, os.Chmod(program, 0o755))
	b.must("cp", "-al", filepath.Dir(filepath.Dir(codex)), program+"/codex")
	b.codex = program + "/codex/bin/codex"
	require.NoError(t, os.WriteFile(dir+"/key", []byte(secret+"\n"), 0o600))
	provider := b.provider()
	b.write("etc/remotes/build.toml", fmt.Sprintf(`directory = %q
model = "m"
codex_path = %q
%s
[provider]
name = "local"
base_url = %q
key_file = %q
`, dir+"/work", b.codex, keys, provider+"/v1", dir+"/key"))
	self, err := os.Executable()
	require.NoError(t, err)
	b.must("cp", self, dir+"/program")
	b.must("chmod", "755", dir+"/program")
	b.must("chown", fmt.Sprint(someone, ":", someone), dir, dir+"/etc", dir+"/home", dir+"/run", dir+"/work", dir+"/etc/remotes")
	return b
}

// provider passes on to the scripted model.
func (b *bed) provider() string {
	target, err := url.Parse(b.models.URL())
	require.NoError(b.t, err)
	target.Path = ""
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.sent.record(r.Header)
		proxy.ServeHTTP(w, r)
	}))
	b.t.Cleanup(s.Close)
	return s.URL
}

func (b *bed) must(name string, args ...string) {
	b.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(b.t, err, string(out))
}

func (b *bed) write(name, text string) {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644))
}

// command is a command of the unit.
func (b *bed) command(role string, files ...*os.File) *exec.Cmd {
	b.t.Helper()
	hash := ""
	if s, err := remoteconfig.Load(b.dir + "/etc/remotes/build.toml"); err == nil {
		hash = s.Hash
	}
	cmd := exec.Command("unshare", "-m", "sh", "-ec", machine, "sh", b.dir, fmt.Sprint(someone), role)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CONFIGURATION_DIRECTORY=" + b.dir + "/etc", "CODEX_HOME=" + b.dir + "/home",
		"STATE_DIRECTORY=" + b.dir + "/home", "HOME=" + b.dir + "/home/home", "RUNTIME_DIRECTORY=" + b.dir + "/run",
		remoteconfig.HashVariable + "=" + hash, "INVOCATION_ID=1", "RUST_LOG=error", "GORACE=atexit_sleep_ms=0"}
	cmd.Env = append(cmd.Env, b.env...)
	if len(files) > 0 {
		cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+b.dir+"/notify", fmt.Sprint("LISTEN_FDS=", len(files)), "LISTEN_FDNAMES=remote")
	}
	cmd.ExtraFiles, cmd.Dir = files, "/"
	return cmd
}

// start starts the main process, and waits until it is ready.
func (b *bed) start() {
	b.t.Helper()
	b.run()
	b.until("READY=1")
}

// listen opens the people's socket.
func (b *bed) listen() {
	b.t.Helper()
	l, err := net.Listen("unix", b.people)
	require.NoError(b.t, err)
	b.socket = l.(*net.UnixListener)
	b.socket.SetUnlinkOnClose(true)
	b.t.Cleanup(func() { b.socket.Close() })
}

// output is what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run starts the main process.
func (b *bed) run() {
	b.t.Helper()
	if b.socket == nil {
		b.listen()
	}
	file, err := b.socket.File()
	require.NoError(b.t, err)
	b.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: b.dir + "/notify", Net: "unixgram"})
	require.NoError(b.t, err)
	b.must("chmod", "777", b.dir+"/notify", b.people)
	b.cmd = b.command("remote-exec", file)
	b.cmd.Stdin, err = os.Open(b.dir + "/key")
	require.NoError(b.t, err)
	b.cmd.Stdout, b.cmd.Stderr = &b.log, &b.log
	require.NoError(b.t, b.cmd.Start())
	require.NoError(b.t, file.Close())
	b.ended = make(chan struct{})
	go func() { defer close(b.ended); _ = b.cmd.Wait() }()
	b.t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.ended
		b.notify.Close()
		if b.t.Failed() {
			b.t.Log(b.log.String())
		}
	})
}

// until waits for a message to systemd.
func (b *bed) until(want string) string {
	b.t.Helper()
	require.NoError(b.t, b.notify.SetReadDeadline(time.Now().Add(patience)))
	for buf := make([]byte, 4096); ; {
		n, err := b.notify.Read(buf)
		require.NoError(b.t, err, "waiting for %s", want)
		if strings.Contains(string(buf[:n]), want) {
			return string(buf[:n])
		}
	}
}

func (b *bed) attach() *client {
	b.t.Helper()
	ctx := b.bound()
	c := &client{b: b, notes: make(chan rpc.Message, 10_000)}
	conn, err := rpc.Dial(ctx, b.people, rpc.Options{OnNotification: func(m rpc.Message) {
		m.Params = append(json.RawMessage(nil), m.Params...)
		c.notes <- m
	}})
	require.NoError(b.t, err)
	c.Conn = conn
	ran := make(chan struct{})
	go func() { defer close(ran); _ = conn.Run(context.Background()) }()
	b.t.Cleanup(func() { conn.Close(nil); <-ran })
	require.NoError(b.t, conn.Call(ctx, "initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "tester", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, nil))
	require.NoError(b.t, conn.Notify(ctx, "initialized", nil))
	return c
}

func (b *bed) bound() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// client is a person's program.
type client struct {
	*rpc.Conn
	b      *bed
	notes  chan rpc.Message
	thread string // of shell
}

// turn runs a turn in a new thread, and returns what the model says.
func (c *client) turn(text string) string {
	c.b.t.Helper()
	return c.turnWith(text, func(string, json.RawMessage) {})
}

// turnWith is turn, and shows all notifications until its end.
func (c *client) turnWith(text string, see func(method string, params json.RawMessage)) string {
	c.b.t.Helper()
	c.startTurn(text)
	var said strings.Builder
	for ctx := c.b.bound(); ; {
		select {
		case m := <-c.notes:
			var p struct{ Delta string }
			_ = json.Unmarshal(m.Params, &p)
			see(m.Method, m.Params)
			switch m.Method {
			case "item/agentMessage/delta":
				said.WriteString(p.Delta)
			case "turn/completed":
				return said.String()
			}
		case <-ctx.Done():
			require.Fail(c.b.t, "the turn does not end", said.String())
		}
	}
}

// shell runs a script as far as a person can go, without codex's own sandbox, and returns its output.
func (c *client) shell(script string, args ...string) string {
	c.b.t.Helper()
	if c.thread == "" {
		var r struct {
			Thread struct {
				ID string `json:"id"`
			} `json:"thread"`
		}
		require.NoError(c.b.t, c.Call(c.b.bound(), "thread/start", map[string]any{}, &r))
		c.thread = r.Thread.ID
	}
	for i, arg := range args {
		args[i] = "'" + arg + "'"
	}
	require.NoError(c.b.t, c.Call(c.b.bound(), "thread/shellCommand", map[string]any{"threadId": c.thread,
		"command": "set -- " + strings.Join(args, " ") + "; { " + script + "; } 2>&1; true"}, nil))
	for ctx := c.b.bound(); ; {
		select {
		case m := <-c.notes:
			var p struct {
				Item struct {
					Type   string `json:"type"`
					Output string `json:"aggregatedOutput"`
				} `json:"item"`
			}
			if m.Method == "item/completed" && json.Unmarshal(m.Params, &p) == nil && p.Item.Type == "commandExecution" {
				return strings.TrimSpace(p.Item.Output)
			}
		case <-ctx.Done():
			require.Fail(c.b.t, "the command does not end", script)
		}
	}
}

// status is the exit status of a command, whose error it prints.
func status(err error) int {
	c := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return err }}
	return cli.New("test", "test", cli.Group{Commands: []*cobra.Command{c}}).Run(context.Background(), []string{"x"}, os.Stdout,
		os.Stderr)
}
