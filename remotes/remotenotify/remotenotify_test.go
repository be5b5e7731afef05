package remotenotify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteconfig"
)

var at = time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC)

func TestOf(t *testing.T) {
	got, is := Of("build", remotes.Event{Kind: remotes.TurnEnded, At: at, Thread: "t", Turn: "2", Status: "completed",
		Detail: "done", Alone: true})
	assert.True(t, is)
	assert.Equal(t, Notice{"build", "turn-ended", at, "t", "2", "completed", "done"}, got)
	for kind, event := range map[remotes.EventKind]string{
		remotes.Waiting: "approval-waiting", remotes.Asked: "turn-cut", remotes.LimitReached: "turn-given-up",
	} {
		got, is := Of("build", remotes.Event{Kind: kind, Alone: true})
		assert.True(t, is)
		assert.Equal(t, event, got.Event)
		_, is = Of("build", remotes.Event{Kind: kind})
		assert.False(t, is, "somebody sees it")
	}
	for _, kind := range []remotes.EventKind{remotes.Attached, remotes.Detached, remotes.Cut, remotes.Continued} {
		_, is := Of("build", remotes.Event{Kind: kind, Alone: true})
		assert.False(t, is, kind)
	}
	got, _ = Of("build", remotes.Event{Kind: remotes.TurnEnded, Alone: true, Detail: strings.Repeat("é", maxText)})
	assert.Equal(t, strings.Repeat("é", maxText/2), got.Text)
}

// unit is codex-remote-notify@build, without systemd.
type unit struct {
	t        *testing.T
	dir, out string
	socket   string
	file     *os.File
	settings *remoteconfig.Settings
	log      lines
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

// newUnit has a script as the command.
func newUnit(t *testing.T, script string) *unit {
	t.Helper()
	dir, err := os.MkdirTemp("/var/lib", "notify") // the command may not lie in /tmp
	if err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	u := &unit{t: t, dir: dir, out: filepath.Join(dir, "out"), socket: filepath.Join(dir, "s")}
	u.log.more = make(chan struct{}, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "command"), []byte("#!/bin/sh\nout="+u.out+"\n"+script), 0o755))
	file := filepath.Join(dir, "build.toml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `directory = "/srv"
model = "m"
[provider]
name = "local"
base_url = "http://127.0.0.1:1/v1"
[notify]
command = [%q, "an argument"]
`, filepath.Join(dir, "command")), 0o644))
	u.settings, err = remoteconfig.Load(file)
	require.NoError(t, err)
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: u.socket, Net: "unixgram"})
	require.NoError(t, err)
	u.file, err = l.File()
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(int(u.file.Fd()), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)) // PassCredentials=yes
	t.Cleanup(func() { u.file.Close(); l.Close() })
	return u
}

func (u *unit) start(change func(*Server)) (stop func()) {
	u.t.Helper()
	s := &Server{File: u.settings.File, Hash: u.settings.Hash, Socket: u.file, UID: os.Getuid(),
		Logger: slog.New(slog.NewTextHandler(&u.log, nil))}
	change(s)
	ctx, cancel := context.WithCancel(u.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		assert.NoError(u.t, <-ended)
	}
}

// until waits for a file of the command.
func (u *unit) until(name string) string {
	u.t.Helper()
	var text []byte
	require.Eventually(u.t, func() (is bool) {
		var err error
		text, err = os.ReadFile(filepath.Join(u.dir, name))
		return err == nil
	}, 20*time.Second, 5*time.Millisecond)
	return string(text)
}

func (u *unit) untilLogged(want string) {
	u.t.Helper()
	for {
		u.log.mu.Lock()
		text := u.log.text.String()
		u.log.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-u.log.more:
		case <-time.After(5 * time.Minute):
			require.Fail(u.t, "not logged: "+want, text)
		}
	}
}

// The command gets a notice in its standard input and in its environment, and its argument from the file.
func TestCommand(t *testing.T) {
	u := newUnit(t, `{ cat; echo "$1"; env | grep ^CODEX_REMOTE | sort; } >$out.new; mv $out.new $out`)
	n := Notice{"build", "turn-ended", at, "t1", "2", "completed", "all\x00 green"}
	require.NoError(t, Send(u.socket, n), "before the service runs")
	stop := u.start(func(*Server) {})
	defer stop()
	first, rest, _ := strings.Cut(u.until("out"), "\n")
	var got Notice
	require.NoError(t, json.Unmarshal([]byte(first), &got))
	assert.Equal(t, n, got)
	assert.Equal(t, `an argument
CODEX_REMOTE_EVENT=turn-ended
CODEX_REMOTE_NAME=build
CODEX_REMOTE_STATUS=completed
CODEX_REMOTE_TEXT=all green
CODEX_REMOTE_THREAD=t1
CODEX_REMOTE_TURN=2
`, rest)
}

// One runs at a time, in their order; a failure ends nothing.
func TestOneAfterTheOther(t *testing.T) {
	u := newUnit(t, `[ -e $out.runs ] && echo at once >>$out.bad
>$out.runs; echo $CODEX_REMOTE_TURN >>$out.all; sleep 0.05; rm $out.runs
[ $CODEX_REMOTE_TURN = 5 ] && mv $out.all $out
[ $CODEX_REMOTE_TURN = 2 ] && { echo "cannot mail" >&2; exit 3; }; true`)
	for i := range 5 {
		require.NoError(t, Send(u.socket, Notice{Remote: "build", Event: "turn-ended", Turn: fmt.Sprint(i + 1)}))
	}
	stop := u.start(func(*Server) {})
	defer stop()
	assert.Equal(t, "1\n2\n3\n4\n5\n", u.until("out"))
	assert.NoFileExists(t, u.out+".bad")
	u.untilLogged(`msg="the command of [notify] has failed" error="exit status 3: cannot mail" event=turn-ended thread_id="" turn_id=2`)
}

// A notice of another user, one that does not parse, and a file that systemd has not read run nothing.
func TestRefused(t *testing.T) {
	u := newUnit(t, `>$out`)
	require.NoError(t, Send(u.socket, Notice{}))
	stop := u.start(func(s *Server) { s.UID = os.Getuid() + 1 })
	u.untilLogged(`msg="a notice is refused: another user has sent it" uid=` + fmt.Sprint(os.Getuid()))
	stop()
	conn, err := net.Dial("unixgram", u.socket)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("{"))
	require.NoError(t, err)
	require.NoError(t, Send(u.socket, Notice{}))
	stop = u.start(func(s *Server) { s.Hash = "another" })
	u.untilLogged("does not parse")
	u.untilLogged("has not read " + u.settings.File + " since its last change: systemctl daemon-reload")
	stop()
	assert.NoFileExists(t, u.out)
}

// The queue of the socket is bounded, and nobody waits for it.
func TestFull(t *testing.T) {
	u := newUnit(t, "")
	const most = 100_000
	for range most {
		if err := Send(u.socket, Notice{}); err != nil {
			assert.ErrorIs(t, err, errFull)
			assert.ErrorContains(t, Send(filepath.Join(u.dir, "none"), Notice{}), "/none: no such file")
			return
		}
	}
	assert.Fail(t, "it takes all")
}
