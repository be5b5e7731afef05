package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
)

// Run is one command line that runs a command in a session.
type Run struct {
	Client         *client.Client
	Stdin          io.Reader // of this program
	Stdout, Stderr io.Writer
	// Signals are those to end this program: the first cancels the command, and the next leaves it.
	Signals <-chan os.Signal

	New       wire.NewSession // without its commands and repository
	Command   wire.NewCommand
	Session   string // an existing one, or "" for a new one
	Source    string // the repository: a URL or a path, or "" for none
	StdinFile string // "-" is Stdin
	Keep      bool   // the new session stays open
	Detach    bool   // do not wait for the command
	DryRun    bool
	JSON      bool
}

// Run runs the command, passes its output on and returns as it ended: an error of cli.Exit has the command's status.
// Other errors mean that it did not run, or that its end is not known; Status has theirs.
func (r *Run) Run(ctx context.Context) error {
	r.Stderr = &serial{w: r.Stderr}
	a, ctx := attend(ctx, r)
	defer a.stop()
	err := r.run(ctx, a)
	if r.JSON {
		err = WriteError(r.Stdout, err)
	}
	return Status(err, RunnerFailed)
}

func (r *Run) run(ctx context.Context, a *attendance) error {
	stdin, err := open(r.StdinFile, r.Stdin)
	if err != nil {
		return fmt.Errorf("cannot read the standard input of the command: %w", err)
	}
	if stdin != nil {
		defer stdin.Close()
		r.Command.Stdin = true
	}
	if r.Session == "" {
		if err := r.prepare(ctx); err != nil {
			return err
		}
	}
	if r.DryRun {
		plan, err := r.Client.Plan(ctx, r.New)
		if err != nil {
			return err
		}
		return show(r.view(), plan, nil, writePlan)
	}
	s, n, err := r.start(ctx, stdin)
	if err != nil {
		return err
	}
	if r.Detach {
		return show(r.view(), s, nil, func(w io.Writer, s wire.Session, _ time.Time) { fmt.Fprintln(w, s.ID) })
	}
	return r.follow(ctx, a, s, n)
}

// prepare completes the new session.
func (r *Run) prepare(ctx context.Context) error {
	if r.Source != "" {
		if err := r.send(ctx); err != nil {
			return err
		}
	}
	r.New.Commands = []wire.NewCommand{r.Command}
	return nil
}

// send makes the source the repository of the new session. It reports changes that the command does not see.
func (r *Run) send(ctx context.Context) error {
	found, err := Source{Client: r.Client, Name: "--repo", Where: r.Source, Ref: r.New.Ref}.Send(ctx)
	if err != nil {
		return err
	}
	if r.New.Ref == "" && r.New.Patch == "" && found.Changed(ctx) {
		fmt.Fprintf(r.Stderr, "--repo %s has changes that are not committed, and the command runs without them "+
			"(git diff HEAD | codex-runner run --patch - has those of known files)\n", r.Source)
	}
	r.New.Repository, r.New.Ref = found.Repository, found.Ref
	return nil
}

// start queues the command, and returns its session and its number there.
func (r *Run) start(ctx context.Context, stdin io.Reader) (wire.Session, int, error) {
	var s wire.Session
	n := 1
	if r.Session == "" {
		made, err := r.Client.CreateSession(ctx, r.New)
		if err != nil {
			return s, 0, err
		}
		s = made
	} else {
		command, err := r.Client.AddCommand(ctx, r.Session, r.Command)
		if err != nil {
			return s, 0, err
		}
		s, n = wire.Session{ID: r.Session}, command.Number
	}
	if stdin != nil {
		if _, err := r.Client.PutStdin(ctx, s.ID, n, stdin); err != nil {
			r.finish(ctx, s.ID, n)
			return s, 0, fmt.Errorf("cannot send the standard input: %w", err)
		}
	}
	if r.Session == "" {
		return s, n, nil
	}
	s, err := r.Client.Session(ctx, r.Session)
	return s, n, err
}

// follow passes the output on, and returns how the command ended.
func (r *Run) follow(ctx context.Context, a *attendance, s wire.Session, n int) error {
	a.begin(s.ID, n)
	if r.New.HoldOnFailure > 0 {
		fmt.Fprintf(r.Stderr, "If the command fails, `codex-runner shell %s` opens a shell in its sandbox, "+
			"and `codex-runner release %[1]s` ends it.\n", s.ID)
	}
	end, err := r.read(ctx, s.ID, n)
	if failed, ok := errors.AsType[*writeError](err); ok {
		// The command has no reader any more: it ends, as with a pipe that is closed.
		a.cancel(ctx)
		if _, err = r.Client.Wait(ctx, s.ID, n); err == nil {
			r.finish(ctx, s.ID, n)
			err = failed
		}
	}
	if errors.Is(err, client.ErrNotRunning) || errors.Is(err, client.ErrLost) {
		err = fmt.Errorf("%w; the command goes on without it: codex-runner logs -f %s", err, s.ID)
	}
	if err != nil {
		return err
	}
	s = r.finish(ctx, s.ID, n)
	command := end.Command
	if command.Outcome.PatchKnown {
		fmt.Fprintln(r.Stderr, "the commit has the change of the patch already")
	}
	if r.JSON {
		s.Commands = []wire.Command{command}
		if err := writeJSON(r.Stdout, s); err != nil {
			return err
		}
		return cli.Exit(command.Outcome.ExitStatus, nil)
	}
	return ended(*command.Outcome)
}

// read passes the output of a command on until it has ended. With JSON the record is all that is written.
func (r *Run) read(ctx context.Context, id string, n int) (wire.LogEnd, error) {
	if r.JSON {
		return r.Client.Wait(ctx, id, n)
	}
	return r.Client.ReadLog(ctx, client.Log{
		Session: id, Command: n, Follow: true, Sink: Sink(r.Stdout, r.Stderr), Lost: Lost(r.Stderr),
	})
}

// closing bounds the close of a session after its command has ended.
const closing = 10 * time.Second

// finish closes the session unless it was there before, or stays, and returns the session for the JSON output.
func (r *Run) finish(ctx context.Context, id string, n int) wire.Session {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	s := wire.Session{ID: id}
	var err error
	switch {
	case r.Session == "" && !r.Keep:
		s, err = r.Client.Cancel(ctx, id, 0)
	case r.JSON:
		s, err = r.Client.Session(ctx, id)
	}
	if err != nil {
		fmt.Fprintf(r.Stderr, "the session %s stays open after its command %d: %v\n", id, n, err)
		s.ID = id
	}
	return s
}

func (r *Run) view() View { return View{Client: r.Client, Stdout: r.Stdout, JSON: r.JSON} }

// Sink returns the receiver of output that writes each stream to the same stream of this program.
func Sink(stdout, stderr io.Writer) func(logs.Chunk) error {
	return func(c logs.Chunk) error {
		w := stdout
		if c.Stream == logs.Stderr {
			w = stderr
		}
		if _, err := w.Write(c.Data); err != nil {
			return &writeError{err}
		}
		return nil
	}
}

// Lost returns the function that reports a lost connection, once for each.
func Lost(stderr io.Writer) func(error) {
	reported := false
	return func(err error) {
		if !reported {
			fmt.Fprintf(stderr, "%v; waiting\n", err)
		}
		reported = true
	}
}
