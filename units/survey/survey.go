// Package survey has the facts about an installation that the checks of several rooms need, the checks of systemd, of
// its units and of the machine, and the form in which a room brings its own checks to doctor.
package survey

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/reach"
	"codex-proxy/probes"
	"codex-proxy/units"
)

const (
	// AnswerLimit bounds each question to systemd, to the daemon and to a dependency: together they leave a check the
	// time to report, by checkup.Limit, and a person waits for all of them.
	AnswerLimit = 5 * time.Second
	// atATime bounds the questions to systemd at the same time: each is a connection to the bus.
	atATime = 16
)

// Machine is the machine to check. Its functions may be called concurrently, and end with their context.
type Machine struct {
	Root    string // before every path: "/"
	IsRoot  bool   // this process may read and run everything
	Systemd Systemd
	Account func(name string) (reach.Account, error)
	Clock   func() (Clock, error)
}

// Systemd answers questions about systemd and polkit. See units.Manager.
type Systemd interface {
	Version(ctx context.Context) (string, error)
	Describe(ctx context.Context, unit string) (units.Description, error)
	MayManage(ctx context.Context, uid uint32, unit, verb string) (bool, error)
}

// Path is a path of the machine as this process reaches it.
func (m Machine) Path(elem ...string) string {
	return filepath.Join(append([]string{m.Root}, elem...)...)
}

// Facts are the facts that several checks need. They do not change while checks run.
type Facts struct {
	Machine
	Version   string // of systemd
	BusErr    error  // systemd does not answer
	Units     map[string]units.Description
	UnitErrs  map[string]error
	Report    probes.Report
	ReportErr error // the daemon does not answer
}

// Ask asks systemd about its version and about units.
func (f *Facts) Ask(ctx context.Context, names []string) {
	f.Units, f.UnitErrs = map[string]units.Description{}, map[string]error{}
	ctx, cancel := context.WithTimeout(ctx, AnswerLimit)
	defer cancel()
	if f.Version, f.BusErr = f.Systemd.Version(ctx); f.BusErr != nil {
		return
	}
	var all sync.WaitGroup
	var mu sync.Mutex // guards the maps
	places := make(chan struct{}, atATime)
	for _, name := range names {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			d, err := f.Systemd.Describe(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				f.UnitErrs[name] = err
				return
			}
			f.Units[name] = d
		})
	}
	all.Wait()
}

// Standby reports whether the unit is stopped because the account of its worker is not needed.
func (f *Facts) Standby(unit string) bool {
	return slices.ContainsFunc(f.Report.Workers, func(w probes.Worker) bool {
		return w.Unit == unit && w.Reason == probes.Standby
	})
}

// Running reports whether the unit is active. It is false if its state is unknown.
func (f *Facts) Running(unit string) bool { return f.Units[unit].Active() }

// Unprivileged is the finding of a check that needs root.
func Unprivileged(subject, what string) checkup.Finding {
	return checkup.Failure(subject, "not checked: only root may "+what, "run it as root: sudo codex-proxy doctor")
}
