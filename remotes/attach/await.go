package attach

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/units"
)

const (
	// patience is the time in which a running remote answers: until then there is no line of progress.
	patience = 300 * time.Millisecond
	// pace is the period of the line of progress.
	pace = time.Second
	// describeBound bounds a question to systemd.
	describeBound = time.Second
)

// await waits until the remote is ready. A connection to a stopped one starts it, and waits in the socket of systemd.
func (a *Attach) await(ctx context.Context, socket string) (remotes.Status, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		remotes.Status
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		st, err := remoteapi.AskStatus(ctx, socket)
		answers <- answer{st, err}
	}()
	began, line := time.Now(), progress{attach: a}
	defer line.clear()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case got := <-answers:
			if got.err != nil {
				return got.Status, a.failed(ctx, got.err)
			}
			return got.Status, nil
		case <-timer.C:
			unit := a.describe(ctx)
			if unit.Failed() {
				return remotes.Status{}, a.failed(ctx, nil)
			}
			line.show(unit, time.Since(began))
			timer.Reset(pace)
		}
	}
}

func (a *Attach) describe(ctx context.Context) (d units.Description) {
	if a.Describe == nil {
		return d
	}
	ctx, cancel := context.WithTimeout(ctx, describeBound)
	defer cancel()
	d, _ = a.Describe(ctx, units.Remote(a.Remote)) // where systemd does not answer, the state is unknown
	return d
}

// failed returns the reason why a remote does not answer, and the remedy.
func (a *Attach) failed(ctx context.Context, err error) error {
	unit, socket := units.Remote(a.Remote), units.RemoteSocket(a.Remote)
	if refused := (*remoteapi.RefusedError)(nil); errors.As(err, &refused) {
		return a.unstarted(err.Error())
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens for the remote %s, as after too many starts that failed (codex-proxy remotes "+
			"check %s has the reason): systemctl reset-failed %s %s && systemctl start %s",
			a.Remote, a.Remote, unit, socket, socket)
	}
	reason, known := strings.CutPrefix(strings.TrimSpace(a.describe(ctx).StatusText), "Not started: ")
	switch {
	case known:
		return a.unstarted(reason)
	case err != nil:
		reason = err.Error()
	case reason == "":
		reason = "its unit has failed"
	}
	return fmt.Errorf("the remote %s does not answer: %s (journalctl -u %s has more)", a.Remote, reason, unit)
}

func (a *Attach) unstarted(reason string) error {
	return fmt.Errorf("the remote %s does not start: %s\nAfter a change of its file: codex-proxy remotes check %s && "+
		"systemctl daemon-reload", a.Remote, reason, a.Remote)
}

// progress is the line that shows that the remote is being waited for.
type progress struct {
	attach *Attach
	shown  bool
}

func (p *progress) show(unit units.Description, since time.Duration) {
	terminal := cli.IsTerminal(p.attach.Stderr)
	if p.shown && !terminal {
		return
	}
	what := strings.TrimSpace(unit.StatusText)
	if what == "" {
		what = "Starting"
	}
	line := fmt.Sprintf("%s: %s (%d s)", p.attach.Remote, what, int(since.Seconds()+0.5))
	if terminal {
		fmt.Fprintf(p.attach.Stderr, "\r\x1b[K%.79s", line)
	} else {
		fmt.Fprintln(p.attach.Stderr, line)
	}
	p.shown = true
}

func (p *progress) clear() {
	if p.shown && cli.IsTerminal(p.attach.Stderr) {
		fmt.Fprint(p.attach.Stderr, "\r\x1b[K")
	}
}
