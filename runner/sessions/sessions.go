// Package sessions is the work of codex-runner's commands for people: it runs commands in sessions over the API of the
// daemon, and shows sessions, their output and their artifacts.
package sessions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/listing"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
)

// View is one command line that shows something.
type View struct {
	Client *client.Client
	Stdout io.Writer
	JSON   bool // as the API returns it, one line
}

// show shows v as JSON, or as write does for people. err is the error of the call that returned v.
func show[T any](o View, v T, err error, write func(w io.Writer, v T, now time.Time)) error {
	if err != nil {
		return Status(err, cli.Failure)
	}
	if o.JSON {
		return writeJSON(o.Stdout, v)
	}
	var page bytes.Buffer
	write(&page, v, time.Now())
	_, err = o.Stdout.Write(page.Bytes())
	return err
}

// List shows sessions, the newest first.
func (o View) List(ctx context.Context, f client.Filter) error {
	all, err := o.Client.Sessions(ctx, f)
	paper := listing.PaperOf(o.Stdout)
	return show(o, wire.Sessions{Sessions: all}, err, func(w io.Writer, page wire.Sessions, now time.Time) {
		table(w, paper.Width, "ID\tUSER\tSTATE\tCOMMANDS\tLAST\tAGE\tTIME\tCOMMAND", page.Sessions,
			func(s wire.Session) []string {
				last := s.Commands[len(s.Commands)-1]
				return []string{
					s.ID, user(s.Owner), string(s.State), fmt.Sprint(last.Number), state(last), listing.Age(s.Created,
						now),
					took(last, now), commandLine(last.Args),
				}
			})
	})
}

// Show shows a session and its commands.
func (o View) Show(ctx context.Context, id string) error {
	s, err := o.Client.Session(ctx, id)
	return show(o, s, err, func(w io.Writer, s wire.Session, now time.Time) {
		writeSession(w, s, lacking(ctx, s), now)
	})
}

// Cancel ends the nth command of a session, or all of them and the session if n is 0.
func (o View) Cancel(ctx context.Context, id string, n int) error {
	s, err := o.Client.Cancel(ctx, id, n)
	return show(o, s, err, func(io.Writer, wire.Session, time.Time) {})
}

// Release ends the hold of a command that failed.
func (o View) Release(ctx context.Context, id string) error {
	s, err := o.Client.Release(ctx, id)
	return show(o, s, err, func(io.Writer, wire.Session, time.Time) {})
}

// Prune removes closed sessions, or shows which it would remove.
func (o View) Prune(ctx context.Context, p wire.Prune) error {
	gone, err := o.Client.Prune(ctx, p)
	return show(o, gone, err, func(w io.Writer, gone wire.Pruned, _ time.Time) {
		for _, id := range gone.Sessions {
			fmt.Fprintln(w, id)
		}
		done := "removed"
		if p.DryRun {
			done = "would be removed"
		}
		fmt.Fprintf(w, "%s (%s) %s\n", count(len(gone.Sessions), "session"), size(gone.Bytes), done)
	})
}

// Status shows the state of the daemon, and the paths of the settings that the host does not have, to people.
func (o View) Status(ctx context.Context, missing []string) error {
	s, err := o.Client.Status(ctx)
	return show(o, s, err, func(w io.Writer, s wire.Status, now time.Time) {
		ready := "ready"
		if !s.Ready {
			ready = "not ready (" + s.Reason + ")"
		}
		fmt.Fprintf(w, "%s, version %s, for %s\n", ready, s.Version, listing.Age(s.Since, now))
		fmt.Fprintf(w, "commands: %d of %d run, %d of %d wait\n", s.Running, s.MaxSessions, s.Queued, s.MaxQueued)
		fmt.Fprintf(w, "%s; workspaces: %d of %d in use\n", count(s.Sessions, "session"), s.Leased, s.Workspaces)
		fmt.Fprintf(w, "environments: %d with %s; repositories: %d with %s\n", s.Environments, size(s.EnvironmentBytes),
			s.Repositories, size(s.RepositoryBytes))
		fmt.Fprintf(w, "snapshots of set-ups: %d with %s; since the start: %s began with one, %s waited for one, %d removed\n", s.Snapshots,
			size(s.SnapshotBytes), count(int(s.SnapshotHits), "session"), count(int(s.SnapshotMisses), "session"), s.SnapshotsRemoved)
		fmt.Fprintf(w, "disk: %s of %s free\n", size(s.DiskFree), size(s.DiskSize))
		for _, fault := range missing {
			fmt.Fprintf(w, "not shown to commands: %s\n", fault)
		}
	})
}

// table writes rows below their titles, each cut at the width in columns.
func table[T any](w io.Writer, width int, titles string, rows []T, cells func(T) []string) {
	var page bytes.Buffer
	t := tabwriter.NewWriter(&page, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, titles)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(cells(row), "\t"))
	}
	_ = t.Flush() // into memory
	for line := range strings.Lines(page.String()) {
		if text := []rune(strings.TrimRight(line, "\n")); len(text) > width {
			line = string(text[:width-1]) + "…\n"
		}
		fmt.Fprint(w, line)
	}
}
