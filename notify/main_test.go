package notify

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary also plays the processes that the tests need: its first argument
// is the role.
var roles = map[string]func(args []string) int{
	"shim":      playShim,
	"server":    playServer,
	"lastwords": playLastWords,
	"exit":      playExit,
	"die":       playDie,
	"signals":   playSignals,
	"inherited": playInherited,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if play, ok := roles[os.Args[1]]; ok {
			os.Exit(play(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// playShim runs Exec: PROBE RELAY COMMAND..., where PROBE is the echo server's
// socket and RELAY the name of an inherited socket; "-" is none. SHIM_DRAIN and
// SHIM_BLOCK in the environment are Command.Drain and BlockTerm, SHIM_STOPPED is Stopped.
// With SHIM_REST, SIGCONT closes Command.Rest. SHIM_INTERVAL is ProbeInterval, and ProbeTimeout after the start.
func playShim(args []string) int {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	notifier, err := FromEnv(logger)
	if err != nil {
		return fail(err)
	}
	sockets, err := Inherited()
	if err != nil {
		return fail(err)
	}
	c := Command{Args: args[2:], Drain: os.Getenv("SHIM_DRAIN") != "",
		Stopped:   func(context.Context) bool { return os.Getenv("SHIM_STOPPED") != "" },
		BlockTerm: os.Getenv("SHIM_BLOCK") != "", MemoryEvents: os.Getenv("MEMORY_EVENTS")}
	if os.Getenv("SHIM_REST") != "" {
		c.Rest = restOnSIGCONT()
	}
	if args[0] != "-" {
		probe := func(ctx context.Context) (string, error) { return "echo", echo(ctx, args[0]) }
		c.Ready, c.Alive = []Probe{probe}, probe
		if interval, err := time.ParseDuration(os.Getenv("SHIM_INTERVAL")); err == nil {
			c.ProbeInterval, c.ProbeTimeout = interval, patience/10
		}
	}
	if args[1] != "-" {
		listeners, err := sockets.Listeners(args[1])
		if err != nil {
			return fail(err)
		}
		c.Relay = &Relay{Listeners: listeners, Target: args[0], Limit: 8}
	}
	status, err := Exec(context.Background(), notifier, logger, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return ExitExec
	}
	return Exit(status)
}

// restOnSIGCONT returns a channel that the first SIGCONT closes.
func restOnSIGCONT() <-chan struct{} {
	rest, continued := make(chan struct{}), make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	go func() { <-continued; close(rest) }()
	return rest
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 99
}

func echo(ctx context.Context, path string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err = conn.Write([]byte{'?'}); err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// playServer echoes on the socket args[0] until SIGTERM, then exits with 5. It
// ignores SIGINT. On a connection that begins with "p" it sends its PID first.
func playServer(args []string) int {
	terminated := make(chan os.Signal, 1)
	signal.Ignore(syscall.SIGINT)
	signal.Notify(terminated, syscall.SIGTERM)
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return fail(err)
	}
	go serveEcho(l)
	<-terminated
	return 5
}

func serveEcho(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			first := make([]byte, 1)
			if _, err := io.ReadFull(conn, first); err != nil {
				return
			}
			if first[0] == 'p' {
				fmt.Fprintf(conn, "%d\n", os.Getpid())
			} else {
				_, _ = conn.Write(first)
			}
			_, _ = io.Copy(struct{ io.Writer }{conn}, conn)
		}()
	}
}

const lastWords = 1 << 20

// playLastWords answers probes until a client sends "!": it sends that client many
// bytes, and then exits at once.
func playLastWords(args []string) int {
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return fail(err)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return fail(err)
		}
		first := make([]byte, 1)
		_, _ = io.ReadFull(conn, first)
		if first[0] == '!' {
			_, _ = conn.Write(make([]byte, lastWords))
			return 0
		}
		_, _ = conn.Write(first)
		_ = conn.Close()
	}
}

func playExit(args []string) int {
	code, _ := strconv.Atoi(args[0])
	return code
}

func playDie(args []string) int {
	number, _ := strconv.Atoi(args[0])
	dieOf(syscall.Signal(number))
	return 98
}

// playSignals prints the signals it receives until SIGUSR1, then exits with 7.
func playSignals([]string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGABRT, syscall.SIGUSR1)
	fmt.Println("up")
	for sig := range signals {
		fmt.Println(signalName(sig))
		if sig == syscall.SIGUSR1 {
			break
		}
	}
	return 7
}

// playInherited prints the variables and descriptors that came from its parent.
func playInherited([]string) int {
	for _, assignment := range os.Environ() {
		name, _, _ := strings.Cut(assignment, "=")
		for _, prefix := range []string{"NOTIFY_", "WATCHDOG_", "LISTEN_"} {
			if strings.HasPrefix(name, prefix) {
				fmt.Println(assignment)
			}
		}
	}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		target, _ := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if number, _ := strconv.Atoi(fd.Name()); number > 2 && strings.HasPrefix(target, "socket:") {
			fmt.Println(fd.Name(), target)
		}
	}
	return 0
}

// manager is the service manager's end of NOTIFY_SOCKET.
type manager struct {
	conn    *net.UnixConn
	address string
}

const patience = time.Minute

func newManager(t *testing.T, address string) *manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: address})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &manager{conn: conn, address: address}
}

// next waits for a message.
func (m *manager) next(t *testing.T) string {
	t.Helper()
	buffer := make([]byte, 8192)
	require.NoError(t, m.conn.SetReadDeadline(time.Now().Add(patience)))
	size, err := m.conn.Read(buffer)
	require.NoError(t, err)
	return string(buffer[:size])
}

// until skips messages that begin with one of skipped.
func (m *manager) until(t *testing.T, skipped ...string) string {
	t.Helper()
next:
	for {
		message := m.next(t)
		for _, s := range skipped {
			if strings.HasPrefix(message, s) {
				continue next
			}
		}
		return message
	}
}

// pending returns the messages that have already arrived.
func (m *manager) pending(t *testing.T) (messages []string) {
	t.Helper()
	raw, err := m.conn.SyscallConn()
	require.NoError(t, err)
	buffer := make([]byte, 8192)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for {
			size, _, err := syscall.Recvfrom(int(fd), buffer, syscall.MSG_DONTWAIT)
			if err != nil {
				return
			}
			messages = append(messages, string(buffer[:size]))
		}
	}))
	return messages
}

func (m *manager) notifier() *Notifier {
	return &Notifier{
		logger: slog.New(slog.DiscardHandler),
		socket: &net.UnixAddr{Net: "unixgram", Name: m.address},
	}
}
