package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Readiness probes begin close together, since most programs are up in less than
// a second, and become less frequent: a program is ready for at most an eighth of its
// start before a probe finds out.
const (
	firstProbeDelay = 10 * time.Millisecond
	lastProbeDelay  = 250 * time.Millisecond
	probeDelayShare = 8
)

// defaultProbeTimeout applies where neither the command nor a watchdog sets one.
const defaultProbeTimeout = 5 * time.Second

// startingProbeTimeout is the least time of a probe before READY=1, if the command sets
// none. Programs answer late while they start, and on a busy machine later. codex 0.140
// takes no further handshake, and ignores SIGTERM, after a client has given one up.
const startingProbeTimeout = 10 * time.Second

// supervisor turns probe results into notifications while a command runs. All of
// its methods but stopping and drain belong to the goroutine of supervise.
type supervisor struct {
	notifier *Notifier
	logger   *slog.Logger
	command  Command
	started  time.Time
	reported string    // the last start-up failure sent as STATUS=
	failing  time.Time // when Alive began to fail; zero while it passes
	kill     func()    // ends the command at once
	oom      *oomKills
	killed   atomic.Bool // by the supervisor

	// mu orders the statuses: none may follow and replace "Stopping".
	mu      sync.Mutex
	ended   bool
	relayed chan struct{} // closed when the relay has ended; nil before it began
}

func newSupervisor(n *Notifier, logger *slog.Logger, c Command) *supervisor {
	oom := newOOMKills(c.MemoryEvents)
	return &supervisor{notifier: n, logger: logger, command: c, started: time.Now(), oom: oom}
}

// supervise returns when probing has ended and the relay has no connection. The relay
// outlives the probes: a command that is shutting down may still finish its work.
func (s *supervisor) supervise(probing, exited context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	relay := func() {
		relayed := s.relaying()
		work.Go(func() { defer close(relayed); s.command.Relay.Run(exited, s.logger) })
	}
	early := s.command.Relay != nil && s.command.Relay.Early
	if early {
		relay()
	}
	detail, ready := s.awaitReady(probing)
	if !ready {
		return
	}
	if s.command.Relay != nil && !early {
		relay()
	}
	took := time.Since(s.started).Round(time.Millisecond)
	s.notifier.Ready(fmt.Sprintf("Ready: %s, started in %v", detail, took))
	s.logger.Info("ready", "detail", detail, "took", took)
	if s.command.Alive == nil {
		return
	}
	s.watchdog().run(probing)
}

func (s *supervisor) relaying() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relayed = make(chan struct{})
	return s.relayed
}

// drain calls end when the relay, with closed listeners, has no connection.
func (s *supervisor) drain(exited context.Context, end func()) {
	s.mu.Lock()
	relayed := s.relayed
	s.mu.Unlock()
	if relayed != nil {
		select {
		case <-relayed:
		case <-exited.Done():
			return
		}
	}
	end()
}

// awaitReady probes until all probes have passed often enough, or ctx is done.
func (s *supervisor) awaitReady(ctx context.Context) (detail string, ready bool) {
	if len(s.command.Ready) == 0 {
		return "not probed", true
	}
	timer := time.NewTimer(firstProbeDelay)
	defer timer.Stop()
	for passes := 0; ; {
		select {
		case <-ctx.Done():
			return "", false
		case <-timer.C:
		}
		detail, err := s.probeReady(ctx)
		if err != nil {
			passes = 0
			s.starting(err.Error())
			timer.Reset(min(max(time.Since(s.started)/probeDelayShare, firstProbeDelay), lastProbeDelay))
			continue
		}
		if passes++; passes >= s.command.Passes {
			return detail, true
		}
		s.starting(fmt.Sprintf("%s, pass %d of %d", detail, passes, s.command.Passes))
		timer.Reset(lastProbeDelay)
	}
}

// probeReady stops at the first probe that fails.
func (s *supervisor) probeReady(ctx context.Context) (detail string, err error) {
	var details []string
	for _, probe := range s.command.Ready {
		detail, err := probeWithin(ctx, s.startingTimeout(), probe)
		if err != nil {
			return "", err
		}
		details = append(details, detail)
	}
	return strings.Join(details, ", "), nil
}

// starting sends the reason why the command is not ready yet, once per reason.
func (s *supervisor) starting(reason string) {
	text := "Starting: " + reason
	if text != s.reported {
		s.reported = text
		s.status(text)
	}
}

// alive is the watchdog's check. It sends its result as STATUS=.
func (s *supervisor) alive(ctx context.Context) error {
	began, kills := time.Now(), s.oom.count()
	detail, err := probeWithin(ctx, s.probeTimeout(), s.command.Alive)
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the probing has ended, not the command
	case err != nil:
		if s.failing.IsZero() {
			s.failing = began
		}
		s.status(fmt.Sprintf("Not answering for %v: %v", tenths(time.Since(s.failing)), err))
		s.endOverdue()
	case !s.failing.IsZero():
		s.status(fmt.Sprintf("Ready: %s, answering again after %v", detail, tenths(time.Since(s.failing))))
		s.failing = time.Time{}
	}
	if err == nil {
		s.survived(kills)
	}
	return err
}

// survived logs that the kernel has killed child processes of the command for lack of
// memory, while the command itself goes on.
func (s *supervisor) survived(kills uint64) {
	if others := s.oom.survive(kills); others > 0 {
		s.logger.Warn("out of memory: a process that the command has started was killed", "processes", others)
	}
}

// endOverdue kills a command that the service manager should have ended: its
// watchdog is off while a unit is being stopped (measured with systemd 257), and an
// ExecStop= that waits for the command's work would wait in vain.
func (s *supervisor) endOverdue() {
	interval := s.notifier.WatchdogInterval()
	if failing := time.Since(s.failing); failing > interval+interval/2 {
		s.logger.Error("the command hangs and the watchdog rests: it is killed", "for", tenths(failing))
		s.kill()
	}
}

// endLate kills a command that did not end within StopTimeout.
func (s *supervisor) endLate() {
	s.logger.Error("the command does not end: it is killed", "after", s.command.StopTimeout)
	s.kill()
}

func tenths(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

func probeWithin(ctx context.Context, timeout time.Duration, probe Probe) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return probe(ctx)
}

// watchdog checks the command at ProbeInterval, or at a third of the interval.
func (s *supervisor) watchdog() *watchdog {
	w := &watchdog{notifier: s.notifier, interval: s.notifier.WatchdogInterval(), check: s.alive}
	w.pace = cmp.Or(s.command.ProbeInterval, watchdogPace(w.interval))
	w.bound = min(s.probeTimeout(), w.pace)
	return w
}

func (s *supervisor) startingTimeout() time.Duration {
	return cmp.Or(s.command.ProbeTimeout, max(s.probeTimeout(), startingProbeTimeout))
}

func (s *supervisor) probeTimeout() time.Duration {
	if s.command.ProbeTimeout > 0 {
		return s.command.ProbeTimeout
	}
	third, interval := watchdogPace(s.notifier.WatchdogInterval()), s.command.ProbeInterval
	if third > 0 && interval > 0 {
		return min(third, interval)
	}
	return cmp.Or(third, interval, defaultProbeTimeout)
}

func (s *supervisor) status(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.notifier.Status(text)
	}
}

func (s *supervisor) stopping(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.notifier.Stopping(text)
}

// exited sends the last status, which systemd shows while the unit is down. The wait
// status of a process does not show a kill for lack of memory; the errno of Failed
// does.
func (s *supervisor) exited(status syscall.WaitStatus) {
	how := fmt.Sprintf("exit status %d", status.ExitStatus())
	if status.Signaled() {
		how = signalName(status.Signal())
	}
	text := fmt.Sprintf("Ended: %s after %v", how, tenths(time.Since(s.started)))
	if !status.Signaled() || status.Signal() != syscall.SIGKILL || s.killed.Load() || !s.oom.fatal() {
		s.notifier.Status(text)
		return
	}
	s.logger.Error("out of memory: the command was killed")
	s.notifier.Failed(text+", out of memory", syscall.ENOMEM)
}
