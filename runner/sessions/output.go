package sessions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/listing"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/session"
)

// Output is one command line that shows the output of a command.
type Output struct {
	Client         *client.Client
	Stdout, Stderr io.Writer
	Command        int // 0 is the last one
	From           int64
	Follow         bool
}

// Show writes the output of a command of the session, each stream to the same stream of this program.
func (o Output) Show(ctx context.Context, id string) error {
	n := o.Command
	if n == 0 {
		s, err := o.Client.Session(ctx, id)
		if err != nil {
			return Status(err, cli.Failure)
		}
		n = lastOf(s)
	}
	_, err := o.Client.ReadLog(ctx, client.Log{
		Session: id, Command: n, From: o.From, Follow: o.Follow, Sink: Sink(o.Stdout, o.Stderr), Lost: Lost(o.Stderr),
	})
	return Status(err, cli.Failure)
}

// lastOf is the number of the last command of a session that is a user's own.
func lastOf(s wire.Session) int {
	for _, c := range slices.Backward(s.Commands) {
		if !session.IsDiff(c.Args) {
			return c.Number
		}
	}
	return 1
}

// Artifacts lists the artifacts of a session, or writes them below the directory to, unless that is "": each as its
// path below the number of its command.
func (o View) Artifacts(ctx context.Context, id, to string) error {
	all, err := o.Client.Artifacts(ctx, id)
	if err == nil && to != "" {
		err = o.save(ctx, id, all, to)
	}
	return show(o, wire.Artifacts{Artifacts: all}, err, func(w io.Writer, page wire.Artifacts, _ time.Time) {
		table(w, listing.PaperOf(o.Stdout).Width, "COMMAND\tKIND\tSIZE\tPATH", page.Artifacts,
			func(a wire.Artifact) []string {
				return []string{strconv.Itoa(a.Command), a.Kind, size(a.Bytes), listing.Printable(a.Path)}
			})
	})
}

// save writes artifacts. Their paths are chosen by the session: no file is outside of the directory (os.Root).
func (o View) save(ctx context.Context, id string, all []wire.Artifact, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, a := range all {
		if err := o.saveOne(ctx, id, a, root); err != nil {
			return fmt.Errorf("cannot save the artifact %s: %w", listing.Printable(a.Path), err)
		}
	}
	return nil
}

func (o View) saveOne(ctx context.Context, id string, a wire.Artifact, root *os.Root) error {
	name := path.Join(strconv.Itoa(a.Command), a.Path)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.Create(name)
	if err != nil {
		return err
	}
	err = o.Client.Artifact(ctx, id, a, file)
	return cmp.Or(err, file.Close())
}
