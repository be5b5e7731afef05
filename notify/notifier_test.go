package notify

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFromEnv(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for name, test := range map[string]struct {
		socket, usec, pid string
		absent            bool
		interval          time.Duration
		failure           string
	}{
		"no service manager":      {absent: true},
		"watchdog without socket": {usec: "1000", pid: self, absent: true},
		"no watchdog":             {socket: "/run/x"},
		"watchdog":                {socket: "@x", usec: "3000000", pid: self, interval: 3 * time.Second},
		"watchdog for any":        {socket: "/run/x", usec: "3000000", interval: 3 * time.Second},
		"watchdog for another":    {socket: "/run/x", usec: "3000000", pid: "1"},
		"broken watchdog":         {socket: "/run/x", usec: "soon", failure: "WatchdogSec="},
		"vsock":                   {socket: "vsock:2:1", failure: `NOTIFY_SOCKET="vsock:2:1"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", test.socket)
			t.Setenv("WATCHDOG_USEC", test.usec)
			t.Setenv("WATCHDOG_PID", test.pid)
			n, err := FromEnv(slog.New(slog.DiscardHandler))
			if test.failure != "" {
				assert.ErrorContains(t, err, test.failure)
			} else {
				require.NoError(t, err)
				assert.Equal(t, test.absent, n == nil)
			}
			assert.Equal(t, test.interval, n.WatchdogInterval())
			for _, variable := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
				_, set := os.LookupEnv(variable)
				assert.False(t, set, "%s is still set", variable)
			}
		})
	}
}

func TestNilNotifier(t *testing.T) {
	var n *Notifier
	n.Ready("x")
	n.Status("x")
	n.Stopping("x")
	n.ExtendTimeout(time.Second)
	n.Ping()
	assert.Zero(t, n.WatchdogInterval())
	assert.NoError(t, n.RunWatchdog(context.Background(), time.Second, nil))
}

func TestMessages(t *testing.T) {
	abstract := "@codex-proxy-test-" + strconv.Itoa(os.Getpid())
	for _, address := range []string{filepath.Join(t.TempDir(), "notify"), abstract} {
		t.Run(address[:1], func(t *testing.T) {
			m := newManager(t, address)
			n := m.notifier()
			defer func() { n.conn.Close() }()
			n.Status("starting")
			n.Ready("all well")
			n.ExtendTimeout(1500 * time.Millisecond)
			n.Ping()
			n.Stopping("bye")
			n.Ready("never")
			n.Ping()
			n.Status("two turns left")
			n.StillStopping(2 * time.Second)
			assert.Equal(t, []string{
				"STATUS=starting",
				"READY=1\nSTATUS=all well",
				"EXTEND_TIMEOUT_USEC=1500000",
				"WATCHDOG=1",
				"STOPPING=1\nWATCHDOG_USEC=0\nSTATUS=bye",
				"STATUS=two turns left",
				"EXTEND_TIMEOUT_USEC=2000000",
			}, m.pending(t))
		})
	}
}

func TestReadyNeverFollowsStopping(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	for range 200 {
		n := m.notifier()
		var both sync.WaitGroup
		both.Go(func() { n.Ready("") })
		both.Go(func() { n.Stopping("") })
		both.Wait()
		messages := m.pending(t)
		require.True(t, strings.HasPrefix(messages[len(messages)-1], "STOPPING=1"), "%q", messages)
		n.conn.Close()
	}
}

// A service manager that re-executes itself may bind a new socket.
func TestSocketReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	m := newManager(t, path)
	n := m.notifier()
	n.Status("one")
	m.conn.Close()
	require.NoError(t, os.RemoveAll(path))
	m = newManager(t, path)
	n.Status("two")
	defer n.conn.Close()
	assert.Equal(t, []string{"STATUS=two"}, m.pending(t))
}

func TestManagerGone(t *testing.T) {
	var log bytes.Buffer
	n := &Notifier{logger: slog.New(slog.NewTextHandler(&log, nil)), socket: newManager(t, "").notifier().socket}
	n.socket.Name = filepath.Join(t.TempDir(), "nobody")
	n.Ready("x")
	assert.Contains(t, log.String(), "cannot notify the service manager")
	assert.Contains(t, log.String(), "READY=1")
}

func TestStatusLine(t *testing.T) {
	assert.Equal(t, "STATUS=a READY=1 b \uFFFDc", statusLine("a\nREADY=1\r\n\tb\x1b \xffc\x00"))
	long := statusLine(strings.Repeat("é", 5000))
	assert.Equal(t, statusLimit, len([]rune(strings.TrimPrefix(long, "STATUS="))))
	assert.True(t, strings.HasSuffix(long, "é…"))
}
