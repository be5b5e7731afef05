package attach

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/test/await"
	"codex-proxy/test/codexes"
	"codex-proxy/test/modelserver"
	"codex-proxy/test/pty"
)

const bound = 5 * time.Minute

// bed is a remote called build, of the real proxy, and a status in place of the manager's.
type bed struct {
	t       testing.TB
	sockets string
	homes   string // CODEX_HOME of the remote and of its clients
	model   *modelserver.Server

	mu     sync.Mutex
	status remotes.Status
	slow   chan struct{} // the status waits for it
}

func newBed(t testing.TB) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("", "attach") // short, for the paths of sockets
	require.NoError(t, err)
	b := &bed{t: t, sockets: filepath.Join(dir, "s"), homes: filepath.Join(dir, "h")}
	require.NoError(t, os.Mkdir(b.sockets, 0o700))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return b
}

func (b *bed) last(thread string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Last = thread
}

func (b *bed) lastThread() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status.Last
}

// serve opens the sockets of the remote, in front of target.
func (b *bed) serve(target string) {
	b.t.Helper()
	g := &authz.Proxy{Remote: "build", Viewers: filepath.Join(b.sockets, "build.viewer.sock"),
		Network: filepath.Join(b.sockets, "build.network.sock"),
		Forwarding: func(_ authz.Session, r authz.Request) {
			if r.Method == "turn/start" && b.lastThread() == "" {
				b.last(r.ThreadID)
			}
		},
		Manager: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name := r.FormValue("name"); name != "" {
				_ = json.NewEncoder(w).Encode(map[string]string{"thread": "id-of-" + name})
				return
			}
			if b.slow != nil {
				<-b.slow
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			_ = json.NewEncoder(w).Encode(b.status)
		})}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	for _, name := range []string{"build.sock", "build.viewer.sock", "build.network.sock"} {
		l, err := net.Listen("unix", filepath.Join(b.sockets, name))
		require.NoError(b.t, err)
		context.AfterFunc(ctx, func() { _ = l.Close() })
		serving.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() { defer conn.Close(); _ = g.Serve(ctx, conn.(*net.UnixConn), target) })
			}
		})
	}
	b.t.Cleanup(func() { cancel(); serving.Wait() })
}

// codex runs the real app-server as the remote's, and returns the path of the program.
func (b *bed) codex() (binary, socket string) {
	b.t.Helper()
	binary = b.prepare()
	socket, _ = b.appServer(binary)
	return binary, socket
}

// prepare makes the remote's home, for the real codex.
func (b *bed) prepare() (binary string) {
	b.t.Helper()
	binary = os.Getenv("CODEX_PROXY_TEST_CODEX")
	if binary == "" {
		b.t.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	b.model = modelserver.Start(b.t, "gpt-5.5")
	home := filepath.Join(b.homes, "remote")
	b.home(home, fmt.Sprintf(`
model = "gpt-5.5"
model_provider = "loop"
thread_unload_delay_secs = 0
features.unbounded_connection_retries = false
[model_providers.loop]
name = "loop"
base_url = "%s/v1"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
`, b.model.URL()))
	return binary
}

// startLimit bounds one start of codex.
const startLimit = time.Minute

// appServer starts codex in the remote's home as systemd does: again if it ends or hangs before it serves.
func (b *bed) appServer(binary string) (socket string, process *os.Process) {
	b.t.Helper()
	home := filepath.Join(b.homes, "remote")
	socket = filepath.Join(home, "s")
	_ = os.Remove(socket) // of one that was killed
	b.t.Cleanup(func() {
		if target, err := os.Readlink(socket); err == nil { // a killed codex leaves them in /tmp
			defer os.Remove(target)
			defer os.Remove(target + ".lock")
		}
	})
	said := filepath.Join(b.t.TempDir(), "stderr")
	for range 3 {
		file, err := os.Create(said)
		require.NoError(b.t, err)
		cmd := exec.Command(binary, codexes.AppServer(binary, socket)...)
		cmd.Env, cmd.Dir, cmd.Stderr = append(os.Environ(), "CODEX_HOME="+home, "HOME="+home), home, file
		require.NoError(b.t, cmd.Start())
		_ = file.Close()
		b.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		if serves(cmd.Process.Pid, socket) {
			return socket, cmd.Process
		}
		_ = cmd.Process.Kill()
		text, _ := os.ReadFile(said)
		b.t.Logf("codex has ended, or does not serve: %v: %s", cmd.Wait(), text)
	}
	require.Fail(b.t, "codex does not start")
	return "", nil
}

// serves waits until codex has its socket, or has ended.
func serves(pid int, socket string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for pace := (await.Pace{}); ctx.Err() == nil; pace.Pause(ctx) {
		if _, err := os.Stat(socket); err == nil {
			return true
		}
		var state unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &state, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == nil && state.Signo != 0 {
			return false
		}
	}
	return false
}

func (b *bed) home(dir, config string) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(dir, 0o700))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600))
}

// screen is a terminal in which the real TUI runs: it answers the questions that a TUI asks, and keeps what it writes.
type screen struct {
	t        testing.TB
	emulator *os.File
	terminal *os.File

	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{} // the TUI has
	rest  []byte        // the last bytes, which may begin a question
}

func newScreen(t testing.TB) *screen {
	t.Helper()
	s := &screen{t: t, wrote: make(chan struct{}, 1)}
	s.emulator, s.terminal = pty.Open(t)
	pty.Resize(t, s.emulator, 40, 120)
	go s.emulate() // until the terminal closes
	return s
}

func (s *screen) emulate() {
	b := make([]byte, 64<<10)
	for {
		n, err := s.emulator.Read(b)
		if err != nil {
			return
		}
		s.rest = append(s.rest, b[:n]...)
		for question, answer := range map[string]string{
			"\x1b[6n": "\x1b[1;1R",  // where is the cursor?
			"\x1b[c":  "\x1b[?1;2c", // which terminal is it?
		} {
			for range bytes.Count(s.rest, []byte(question)) {
				_, _ = s.emulator.WriteString(answer)
			}
		}
		i := max(0, bytes.LastIndexByte(s.rest, '\x1b'))
		switch string(s.rest[i:]) {
		case "\x1b", "\x1b[", "\x1b[6": // the next bytes may complete a question
			s.rest = append([]byte(nil), s.rest[i:]...)
		default:
			s.rest = nil
		}
		s.mu.Lock()
		s.text.Write(b[:n])
		s.mu.Unlock()
		select {
		case s.wrote <- struct{}{}:
		default:
		}
	}
}

// sequence is what moves the cursor or chooses a color, or, as its first group, a word to the terminal itself.
var sequence = regexp.MustCompile("\x1b(?:\\[[^@-~]*[@-~]|\\]([^\x07\x1b]*)(?:\x07|\x1b\\\\)|[^\\[\\]])")

// shown is the text so far without spaces, as the sequences in it stand for some, and then the words to the terminal
// itself, such as its title.
func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := s.text.String()
	text := sequence.ReplaceAllString(written, "")
	for _, word := range sequence.FindAllStringSubmatch(written, -1) {
		text += " " + word[1]
	}
	return strings.Join(strings.Fields(text), "")
}

func (s *screen) wait(text string) {
	s.t.Helper()
	if !s.shows(text, bound) {
		shown := s.shown()
		s.t.Fatalf("no %q on the screen: %s", text, shown[max(0, len(shown)-4000):])
	}
}

// shows waits for a text.
func (s *screen) shows(text string, within time.Duration) bool {
	text = strings.ReplaceAll(text, " ", "")
	end := time.After(within)
	for !strings.Contains(s.shown(), text) {
		select {
		case <-s.wrote:
		case <-end:
			return false
		}
	}
	return true
}

// forget begins the text anew.
func (s *screen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
}

// serveManager pastes a message, which the TUI shows whole, and sends it.
func (s *screen) ask(text string) {
	s.t.Helper()
	s.typed("\x1b[200~" + text + "\x1b[201~")
	s.wait(text)
	s.typed("\r")
}

func (s *screen) typed(text string) {
	s.t.Helper()
	_, err := s.emulator.WriteString(text)
	require.NoError(s.t, err)
}
