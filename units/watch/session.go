package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"

	"codex-proxy/units/bus"
	"codex-proxy/units/properties"
)

// settleTime is how long a change waits for the signal that completes it: a change of
// the Service interface waits for the Unit's, and before systemd 254 an end waits for
// the automatic restart. systemd writes the two back to back.
const settleTime = 100 * time.Millisecond

// wakeAfter is the delay after the announced time at which systemd's timer has surely
// elapsed: systemd sets it a moment after it has recorded the beginning of the wait.
const wakeAfter = 10 * time.Millisecond

// session is the life of one bus connection.
type session struct {
	bus    *bus.Conn
	board  *board
	others func() []string
	step   func() // called after each wait; every wait is bounded

	due             *time.Timer // when systemd is woken for the expected start
	expected, woken time.Time

	round []dbus.ObjectPath // units that the resync by timer has yet to read
}

// openSession connects, subscribes, and reads every unit: when it returns the
// board is current, and signals keep it current.
func openSession(ctx context.Context, board *board, others func() []string, step func()) (*session, error) {
	board.reset()
	conn, err := bus.Connect(ctx, bus.HelloTimeout, board.signal)
	if err != nil {
		return nil, err
	}
	s := &session{bus: conn, board: board, others: others, step: step, due: time.NewTimer(math.MaxInt64)}
	if err := s.begin(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *session) begin(ctx context.Context) error {
	s.board.follow(s.others())
	for _, rule := range s.rules() {
		s.step()
		if err := s.bus.Match(ctx, rule); err != nil {
			return err
		}
	}
	if err := s.matchOthers(ctx, s.board.others()); err != nil {
		return err
	}
	if err := s.bus.FollowOwner(ctx); err != nil {
		return err
	}
	return s.sync(ctx, resyncConnect)
}

// matchOthers asks for signals of units that are not fixed. A bus bounds the rules of one connection: a unit without
// one is read by the resync alone.
func (s *session) matchOthers(ctx context.Context, paths []dbus.ObjectPath) error {
	for _, path := range paths {
		s.step()
		var refused dbus.Error
		if err := s.bus.Match(ctx, changesOf(path)); err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	return nil
}

// rules are narrow: changes of other units cost nothing.
func (s *session) rules() []string {
	rules := []string{from + "path='" + bus.ManagerPath + "',interface='" + bus.ManagerIface + "',member='Reloading'"}
	for path := range s.board.fixed {
		rules = append(rules, changesOf(path))
	}
	return rules
}

// from is the sender of the signals.
const from = "type='signal',sender='" + bus.ManagerName + "',"

func changesOf(path dbus.ObjectPath) string {
	return fmt.Sprintf("%spath='%s',interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'", from, path)
}

// run keeps the board current until the connection ends, and returns the reason.
func (s *session) run(ctx context.Context, resync time.Duration) error {
	tick := time.NewTicker(resync)
	defer tick.Stop()
	pulse := time.NewTicker(bus.CallTimeout)
	defer pulse.Stop()
	var settle <-chan time.Time
	for {
		s.step()
		s.expectStart()
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-pulse.C:
		case <-s.bus.Lost():
			return bus.ErrLost
		case <-s.bus.OwnerChanged():
			err = s.ownerChanged(ctx)
		case <-s.board.resync:
			err = s.sync(ctx, resyncReload)
		case <-tick.C:
			err = s.syncNext(ctx)
		case <-s.board.reread:
			err = s.reread(ctx)
		case <-s.due.C:
			s.wake()
		case <-s.board.loose:
			if settle == nil {
				settle = time.After(settleTime)
			}
		case <-settle:
			settle = nil
			s.board.settle()
		}
		if err != nil {
			return err
		}
	}
}

// expectStart sets the clock to the next automatic restart.
func (s *session) expectStart() {
	if now := time.Now(); s.woken.After(now) { // the clock was set back
		s.woken = now
	}
	if next := s.board.nextStart(s.woken); !next.IsZero() && !next.Equal(s.expected) {
		s.expected = next
		s.due.Reset(time.Until(next) + wakeAfter)
	}
}

// wake makes systemd check its timers. To save power they elapse up to 250 ms late
// unless another event wakes systemd before (sd_event_add_time(3); RestartSec= has no
// setting for that), and requests wait for the worker meanwhile. systemd alone
// starts the unit, at the time that it has chosen. The session does not wait for the
// answer.
func (s *session) wake() {
	s.woken = s.expected
	const flags = dbus.FlagNoAutoStart | dbus.FlagNoReplyExpected
	s.bus.Object(bus.ManagerName, bus.ManagerPath).Go("org.freedesktop.DBus.Peer.Ping", flags, nil)
}

// ownerChanged follows a daemon-reexec. Units may have changed while systemd sent no
// signals, and a new systemd has no subscription of ours.
func (s *session) ownerChanged(ctx context.Context) error {
	if !s.bus.HasOwner() {
		return bus.ErrNoManager
	}
	if err := s.bus.Subscribe(ctx); err != nil {
		return err
	}
	return s.sync(ctx, resyncReexec)
}

func (s *session) sync(ctx context.Context, cause string) error {
	s.board.metrics.resyncs.WithLabelValues(cause).Inc()
	if cause == resyncReload {
		s.round = nil // it may have units that are gone
		if err := s.matchOthers(ctx, s.board.follow(s.others())); err != nil {
			return err
		}
	}
	for path := range s.board.records {
		if err := s.readAll(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// syncNext finds changes that no signal carried, and a systemd that does not answer.
// It reads one unit: reading fifty costs as much as a minute of watching them.
func (s *session) syncNext(ctx context.Context) error {
	if len(s.round) == 0 {
		s.board.metrics.resyncs.WithLabelValues(resyncTimer).Inc()
		s.round = slices.Collect(maps.Keys(s.board.records))
	}
	if len(s.round) == 0 {
		return nil
	}
	path := s.round[0]
	s.round = s.round[1:]
	return s.readAll(ctx, path)
}

func (s *session) reread(ctx context.Context) error {
	for path, names := range s.board.wanted() {
		if err := s.read(ctx, path, names); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) readAll(ctx context.Context, path dbus.ObjectPath) error {
	return s.read(ctx, path, slices.Collect(maps.Keys(s.board.records[path].known)))
}

func (s *session) read(ctx context.Context, path dbus.ObjectPath, names []string) error {
	s.step()
	r := s.board.records[path]
	answers, err := properties.Read(ctx, s.bus, path, r.known, names)
	if err != nil {
		return fmt.Errorf("unit %s: %v", r.unit, err)
	}
	s.board.learn(path, answers)
	return nil
}
