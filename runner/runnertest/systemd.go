// Package runnertest plays systemd and the processes of sessions' units for tests of the daemon: it starts a unit, and
// leaves the files that root and the main process of a real unit leave. Commands run when a test says so.
package runnertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/runner/exec"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/units"
)

// Systemd is the fake. Its methods are safe for concurrent use.
type Systemd struct {
	t                    testing.TB
	stateDir, runtimeDir string

	// Started has each unit that was started.
	Started chan *Unit

	mu      sync.Mutex
	units   map[string]*Unit // that are active
	jobs    map[string]*job  // likewise
	play    func(unit string) error
	refuse  error
	unheard int // starts whose answer is lost
}

// job is a oneshot unit that is active.
type job struct {
	done chan struct{}
	err  error // of its end, once done is closed
}

// Unit is a started unit of a session, and its command.
type Unit struct {
	Session    string
	Number     int
	Online     bool // it has the network
	Spec       *session.Spec
	Properties []units.Property
	// Cancels has the user of each request to cancel the command.
	Cancels chan string
	// Provided has each answer to a need.
	Provided chan exec.Request

	systemd *Systemd
	control *control
}

// New returns a Systemd over the daemon's directories. It can have a thousand units.
func New(t testing.TB, stateDir, runtimeDir string) *Systemd {
	return &Systemd{
		t: t, stateDir: stateDir, runtimeDir: runtimeDir, Started: make(chan *Unit, 1000), units: map[string]*Unit{}, jobs: map[string]*job{},
		play: func(unit string) error { return errors.New("nobody plays " + unit) },
	}
}

// Refuse makes starts fail with err; nil allows them again.
func (s *Systemd) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// Unheard has systemd do the next n starts without an answer, as at a restart of the bus.
func (s *Systemd) Unheard(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unheard = n
}

// answer is what the caller of a start gets to know.
func (s *Systemd) answer() error {
	if s.unheard == 0 {
		return nil
	}
	s.unheard--
	return fmt.Errorf("%w: the bus was restarted", units.ErrUnanswered)
}

// Play sets what the units do that are no sessions: play returns at the end of one, with the result of its job. It is
// called in a goroutine of each unit.
func (s *Systemd) Play(play func(unit string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.play = play
}

// Start starts a unit that is no session, unless it is active, and waits for its end or that of ctx.
func (s *Systemd) Start(ctx context.Context, unit string) error {
	s.mu.Lock()
	if s.refuse != nil {
		defer s.mu.Unlock()
		return s.refuse
	}
	j := s.jobs[unit]
	if j == nil {
		j = &job{done: make(chan struct{})}
		s.jobs[unit] = j
		go s.run(unit, j, s.play)
	}
	s.mu.Unlock()
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Systemd) run(unit string, j *job, play func(string) error) {
	err := play(unit)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[unit] == j {
		s.end(unit, err)
	}
}

func (s *Systemd) end(unit string, err error) {
	j := s.jobs[unit]
	delete(s.jobs, unit)
	j.err = err
	close(j.done)
}

// Stop kills a unit that is no session, if it is active.
func (s *Systemd) Stop(_ context.Context, unit string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[unit] != nil {
		s.end(unit, errors.New("the job failed"))
	}
	return s.refuse
}

// StartWith starts the unit of a session, as root's step does: it reads the specification and makes the files of the
// command. The command then runs.
func (s *Systemd) StartWith(_ context.Context, unit string, properties ...units.Property) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	if s.units[unit] != nil {
		return errors.New("the unit runs")
	}
	u, err := s.prepare(unit, properties)
	if err != nil {
		return err
	}
	s.units[unit] = u
	u.Enter(exec.Reply{Phase: exec.Running, Started: time.Now()})
	s.Started <- u
	return s.answer()
}

func (s *Systemd) prepare(unit string, properties []units.Property) (*Unit, error) {
	template, id, _ := strings.Cut(strings.TrimSuffix(unit, ".service"), "@")
	u := &Unit{
		Session: id, Online: template == "codex-session-online", Properties: properties,
		Cancels: make(chan string, 10), Provided: make(chan exec.Request, 10), systemd: s,
	}
	text, err := os.ReadFile(filepath.Join(s.stateDir, paths.SessionDir(id), paths.Current))
	if err == nil {
		u.Number, err = paths.ParseCommand(string(text))
	}
	if err == nil {
		text, err = os.ReadFile(u.file(paths.Spec))
	}
	if err == nil {
		u.Spec, err = session.ReadSpec(bytes.NewReader(text))
	}
	for _, name := range []string{paths.Output, paths.Index, paths.Result} {
		if err == nil {
			err = create(u.file(name))
		}
	}
	if err != nil {
		return nil, err
	}
	u.control, err = listen(u)
	return u, err
}

func create(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = file.Close()
	}
	return err
}

func (u *Unit) file(name string) string {
	return filepath.Join(u.systemd.stateDir, paths.CommandDir(u.Session, u.Number), name)
}

// File is the path of a file of the command.
func (u *Unit) File(name string) string { return u.file(name) }

// Conclude has the main process write that result and report its end. The unit goes on to End.
func (u *Unit) Conclude(result *session.Result) {
	u.systemd.t.Helper()
	u.write(result)
	u.Enter(exec.Reply{Phase: exec.Ended})
}

// End ends the unit, with that result; nil is none but that of Conclude.
func (u *Unit) End(result *session.Result) {
	t := u.systemd.t
	t.Helper()
	if result != nil {
		u.Conclude(result)
	}
	text, err := session.Encode(&session.Ended{
		Version: session.Version, ServiceResult: "success", ExitCode: "exited", ExitStatus: "0",
		Invocation: strings.Repeat("a", 32), Time: time.Now(),
	})
	require.NoError(t, err)
	part := u.file(paths.Ended) + ".part"
	require.NoError(t, os.WriteFile(part, text, 0o600))
	u.Vanish()
	require.NoError(t, os.Rename(part, u.file(paths.Ended)))
}

// Hold writes the result of a command that has failed, and waits until the daemon releases or cancels it.
func (u *Unit) Hold(result *session.Result) {
	u.systemd.t.Helper()
	u.write(result)
	u.Enter(exec.Reply{Phase: exec.Held})
	<-u.control.released
}

func (u *Unit) write(result *session.Result) {
	t := u.systemd.t
	t.Helper()
	result.Version = session.Version
	if result.Exited && result.Started.IsZero() {
		result.Started = time.Now()
	}
	text, err := session.Encode(result)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(u.file(paths.Result), text, 0o600))
}

// Vanish ends the unit without a record, as the death of the machine does.
func (u *Unit) Vanish() {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	u.control.close()
	delete(u.systemd.units, u.name())
}

func (u *Unit) name() string {
	if u.Online {
		return paths.OnlineUnit(u.Session)
	}
	return paths.SessionUnit(u.Session)
}

// List returns the active units whose names match.
func (s *Systemd) List(_ context.Context, patterns ...string) ([]units.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []units.State
	add := func(name, state string) {
		if slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
			all = append(all, units.State{Unit: name, ActiveState: state})
		}
	}
	for name := range s.units {
		add(name, "active")
	}
	for name := range s.jobs {
		add(name, "activating")
	}
	return all, s.refuse
}
