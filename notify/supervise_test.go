package notify

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// server is what the probes of a test ask. A probe takes no time, but for a hang.
type server struct {
	mu    sync.Mutex
	err   error // of the next probes
	hangs bool
	began []time.Duration // when probes began, since the last ask
	since time.Time
}

func (s *server) probe(ctx context.Context) (string, error) {
	s.mu.Lock()
	s.began = append(s.began, time.Since(s.since))
	hangs, err := s.hangs, s.err
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "server", err
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *server) hang(hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = hangs
}

// probes returns when the probes since the last call began.
func (s *server) probes() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := s.began
	s.began, s.since = nil, time.Now()
	return began
}

// supervised runs the supervisor of c inside a bubble, until the end of play.
func supervised(t *testing.T, watchdog time.Duration, c Command, play func(next func() []string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, path)
		n := m.notifier()
		n.watchdog = watchdog
		s := newSupervisor(n, n.logger, c)
		s.kill = func() { t.Error("the command was killed") }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.supervise(ctx, ctx) }()
		play(func() []string { synctest.Wait(); return m.pending(t) })
		cancel()
		<-ended
		if n.conn != nil {
			n.conn.Close()
		}
	})
}

// WatchdogSec= is interval times failures: the probes have the pace of the interval,
// and one that fails is repeated sooner, so that one lost packet kills nothing.
func TestProbeInterval(t *testing.T) {
	s := &server{}
	c := Command{Ready: []Probe{s.probe}, Alive: s.probe, ProbeInterval: 5 * time.Second, ProbeTimeout: time.Second}
	supervised(t, 10*time.Second, c, func(next func() []string) {
		time.Sleep(firstProbeDelay)
		assert.Equal(t, []string{"READY=1\nSTATUS=Ready: server, started in 10ms"}, next())
		s.probes()
		time.Sleep(14 * time.Second)
		assert.Equal(t, []time.Duration{5 * time.Second, 10 * time.Second}, s.probes())
		assert.Equal(t, []string{"WATCHDOG=1", "WATCHDOG=1"}, next())

		s.hang(true) // the next probe begins at 15 s, and ends at 16 s
		time.Sleep(1500 * time.Millisecond)
		assert.Empty(t, next())
		time.Sleep(501 * time.Millisecond)
		assert.Equal(t, []string{"STATUS=Not answering for 1s: context deadline exceeded"}, next())
		s.hang(false)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"STATUS=Ready: server, answering again after 1.3s", "WATCHDOG=1"}, next(),
			"the repetition comes a quarter of the interval after the failure began, and well within the watchdog's")
		assert.Equal(t, []time.Duration{time.Second, 2250 * time.Millisecond}, s.probes(), "at 15 s and 16.25 s")
		time.Sleep(5 * time.Second)
		assert.Equal(t, []string{"WATCHDOG=1"}, next())
	})
}

// Without a pass within WatchdogSec= there is no ping, so that systemd kills the unit.
func TestProbeHang(t *testing.T) {
	s := &server{}
	c := Command{Ready: []Probe{s.probe}, Alive: s.probe, ProbeInterval: 5 * time.Second, ProbeTimeout: time.Second}
	supervised(t, 15*time.Second, c, func(next func() []string) {
		time.Sleep(6 * time.Second)
		assert.Len(t, next(), 2)
		s.hang(true)
		time.Sleep(15 * time.Second)
		for _, message := range next() {
			assert.Contains(t, message, "STATUS=Not answering for ")
		}
	})
}

// The defaults are a third of the watchdog's interval; a given interval bounds a probe, too, but not before READY=1.
func TestProbeBounds(t *testing.T) {
	for _, c := range []struct{ watchdog, interval, timeout, pace, bound, starting time.Duration }{
		{60, 0, 0, 20, 20, 20},
		{30, 0, 0, 10, 10, 10},
		{30, 0, 20, 10, 10, 20},
		{30, 0, 2, 10, 2, 2},
		{30, 5, 0, 5, 5, 10},
		{30, 14, 0, 14, 10, 10},
		{30, 14, 12, 14, 12, 12},
		{0, 7, 0, 7, 7, 10},
		{0, 0, 0, 0, 0, 10},
	} {
		command := Command{ProbeInterval: c.interval * time.Second, ProbeTimeout: c.timeout * time.Second}
		s := newSupervisor(&Notifier{watchdog: c.watchdog * time.Second}, nil, command)
		w := s.watchdog()
		assert.Equal(t, c.pace*time.Second, w.pace, "%+v", c)
		assert.Equal(t, c.bound*time.Second, w.bound, "%+v", c)
		assert.Equal(t, c.starting*time.Second, s.startingTimeout(), "%+v", c)
	}
}

// A command is ready for at most an eighth of its start before a probe finds out, and a
// long start has few probes.
func TestProbesOfAStart(t *testing.T) {
	s := &server{err: errors.New("no server")}
	supervised(t, 0, Command{Ready: []Probe{s.probe}}, func(func() []string) {
		s.probes()
		time.Sleep(10 * time.Second)
		began := s.probes()
		assert.Less(t, len(began), 70)
		for n, at := range began[1:] {
			gap, before := at-began[n], began[n]
			assert.LessOrEqual(t, gap, max(before/8, firstProbeDelay))
			assert.GreaterOrEqual(t, gap, min(before/8, lastProbeDelay))
		}
	})
}

// All probes of Ready must pass, each within its own bound, and as often as Passes.
func TestReadiness(t *testing.T) {
	first, second := &server{}, &server{err: errors.New("no namespace")}
	c := Command{Ready: []Probe{first.probe, second.probe}, Passes: 3, ProbeTimeout: time.Second}
	supervised(t, 0, c, func(next func() []string) {
		time.Sleep(20 * time.Second)
		assert.Equal(t, []string{"STATUS=Starting: no namespace"}, next(), "one status for a reason")
		first.fail(errors.New("no server"))
		time.Sleep(time.Second)
		assert.Equal(t, []string{"STATUS=Starting: no server"}, next())
		second.probes()
		time.Sleep(time.Second)
		assert.Empty(t, second.probes(), "the first failure is enough")

		first.fail(nil)
		second.fail(nil)
		time.Sleep(2*lastProbeDelay - 1)
		assert.Equal(t, []string{
			"STATUS=Starting: server, server, pass 1 of 3", "STATUS=Starting: server, server, pass 2 of 3",
		}, next())
		second.hang(true)
		time.Sleep(lastProbeDelay + time.Second)
		assert.Equal(t, []string{"STATUS=Starting: context deadline exceeded"}, next(), "a failure begins anew")
		second.hang(false)
		time.Sleep(time.Second)
		messages := next()
		assert.Len(t, messages, 3)
		assert.Contains(t, messages[2], "READY=1\nSTATUS=Ready: server, server, started in ")
	})
}
