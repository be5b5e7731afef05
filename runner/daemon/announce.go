package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/promfile"
	"codex-proxy/notify"
	"codex-proxy/runner"
	"codex-proxy/runner/paths"
)

// announcer reports the state to systemd, as a line of text, and to node exporter, as a file.
type announcer struct {
	runner   *runner.Runner
	notifier *notify.Notifier
	file     *promfile.Writer
}

func newAnnouncer(r *runner.Runner, n *notify.Notifier, metrics prometheus.Gatherer, logger *slog.Logger) *announcer {
	state := func() []string { return []string{reason(r)} }
	path := filepath.Join(paths.RuntimeDir, paths.Textfile)
	return &announcer{runner: r, notifier: n, file: promfile.New(path, metrics, state, logger)}
}

// announcePause is the shortest time between two lines for systemd.
const announcePause = 200 * time.Millisecond

// run announces changes until ctx is done.
func (a *announcer) run(ctx context.Context) error {
	pause := time.NewTicker(announcePause)
	defer pause.Stop()
	last := ""
	for {
		changed := a.runner.Queue.Changed()
		if words := a.words(); words != last {
			a.notifier.Status(words)
			last = words
		}
		a.file.Changed()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}

// write keeps the file until ctx is done. The package links it into the directory of node exporter: so it stays, and is
// empty while the service is stopped.
func (a *announcer) write(ctx context.Context) error {
	defer a.file.Clear()
	return a.file.Run(ctx)
}

// words returns the status of the unit, for people.
func (a *announcer) words() string {
	if reason := reason(a.runner); reason != "" {
		return "Not ready: " + reason
	}
	running, queued := a.runner.Queue.Load()
	words := "Serving; no command runs"
	if running > 0 {
		words = fmt.Sprintf("Serving; %d of %d commands run", running, a.runner.MaxSessions)
	}
	if queued > 0 {
		words += fmt.Sprintf(", %d wait", queued)
	}
	return words
}

// reason is why the service is not ready, or empty.
func reason(r *runner.Runner) string {
	if err := r.Ready(); err != nil {
		return err.Error()
	}
	return ""
}
