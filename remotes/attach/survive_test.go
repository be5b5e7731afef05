package attach

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/remotes/remoteconfig"
)

// unit plays the unit of a remote: systemd's socket, and behind it codex, its manager and the proxy, which end
// together.
type unit struct {
	b      *bed
	binary string
	accept chan net.Conn

	codex *os.Process
	end   func()

	mu    sync.Mutex
	conns []net.Conn
}

func newUnit(b *bed) *unit {
	b.t.Helper()
	u := &unit{b: b, accept: make(chan net.Conn, 16)}
	u.binary = b.prepare()
	require.NoError(b.t, os.Mkdir(filepath.Join(b.homes, "state"), 0o700))
	l, err := net.Listen("unix", filepath.Join(b.sockets, "build.sock"))
	require.NoError(b.t, err)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			u.accept <- conn
		}
	})
	b.t.Cleanup(func() { l.Close(); accepting.Wait() })
	return u
}

// start returns when the manager has readied codex. Connections wait until then.
func (u *unit) start(process *os.Process, socket string) {
	u.b.t.Helper()
	u.codex = process
	manager, err := remotes.New(remotes.Options{Socket: socket, State: filepath.Join(u.b.homes, "state"), Version: "test",
		Continue: remoteconfig.Always})
	require.NoError(u.b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = manager.Run(ctx) })
	require.Eventually(u.b.t, func() bool { _, err := manager.Open(ctx); return err == nil }, bound, 10*time.Millisecond)
	attached := sync.Map{}
	g := &authz.Proxy{Remote: "build", Manager: remoteapi.Handler(manager),
		Attached: func(s authz.Session) { attached.Store(s.ID, manager.Attach(remotes.Client{User: s.Peer.User()})) },
		Detached: func(s authz.Session) {
			if f, ok := attached.LoadAndDelete(s.ID); ok {
				f.(func())()
			}
		},
		Forwarding: func(s authz.Session, r authz.Request) {
			if remotes.Recorded(r.Method) {
				manager.RecordRequest(fmt.Sprint(s.ID, " ", r.ID), r.Method, r.Params)
			}
		},
		Failed: func(s authz.Session, id string) { manager.RecordRefusal(fmt.Sprint(s.ID, " ", id)) }}
	tasks.Go(func() {
		for {
			select {
			case conn := <-u.accept:
				if ctx.Err() != nil { // it stays in the backlog
					u.accept <- conn
					return
				}
				u.mu.Lock()
				u.conns = append(u.conns, conn)
				u.mu.Unlock()
				tasks.Go(func() { defer conn.Close(); _ = g.Serve(ctx, conn.(*net.UnixConn), socket) })
			case <-ctx.Done():
				return
			}
		}
	})
	u.end = func() { cancel(); tasks.Wait() }
	u.b.t.Cleanup(u.end)
}

// cut ends the connections, as the end of a proxy between them does.
func (u *unit) cut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.conns {
		_ = c.Close()
	}
	u.conns = nil
}

// restart kills codex, and starts it again as systemd does.
func (u *unit) restart() {
	u.b.t.Helper()
	u.kill()
	u.boot()
}

// boot starts codex and what belongs to it.
func (u *unit) boot() {
	u.b.t.Helper()
	socket, process := u.b.appServer(u.binary)
	u.start(process, socket)
}

// kill is kill -9 of codex in mid-turn, with which its manager ends; systemd starts both again.
func (u *unit) kill() {
	u.b.t.Helper()
	require.NoError(u.b.t, u.codex.Kill())
	_, err := u.codex.Wait() // it holds the lock of its socket until then
	require.NoError(u.b.t, err)
	u.end()
}

// The real TUI goes through kills of codex in mid-turn: it reconnects, and the answer comes without a key.
func TestTheTUISurvivesKills(t *testing.T) {
	b := newBed(t)
	u := newUnit(b)
	b.person()
	u.boot()

	require.NoError(t, b.model.Script("text the beginning", "gate first"))
	s, ended := b.tui(u.binary, Attach{})
	s.wait("OpenAI Codex")
	s.ask("go ahead")
	s.wait("the beginning")
	for range 2 {
		require.NoError(t, b.model.Script("text once more", "gate again"))
		u.restart()
	}
	require.NoError(t, b.model.Always("gpt-5.5", "text and the end"))
	u.kill()
	began := time.Now()
	u.boot()
	s.wait("and the end")
	t.Logf("the end %v after the kill", time.Since(began))
	assert.NotContains(t, s.shown(), "interrupted")
	s.quit(ended)
	s.wait("Back to it: codex-proxy attach build")
}
