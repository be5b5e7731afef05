package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/listing"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/ports"
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
	Changes   Changes
	StdinFile string          // "-" is Stdin
	Ports     []ports.Mapping // of the session, that are forwarded while the command runs
	Keep      bool            // the new session stays open
	Detach    bool            // do not wait for the command
	// Apply and Branch bring the changes of a new session into the directory of Source if the command succeeds.
	Apply  bool
	Branch string // of the branch to make, or ""
	DryRun bool
	JSON   bool

	TTY     bool             // the command has a terminal, and Stdin is its client
	Term    string           // $TERM, of TTY
	Resized <-chan os.Signal // the changes of the size of Stdin (SIGWINCH), of TTY

	stderr *serial // Stderr, while Run runs
	tty    *tty    // nil without TTY
	bring  bring
	top    string // of a local repository; set by send
}

// Run runs the command, passes its output on and returns as it ended: an error of cli.Exit has the command's status.
// Other errors mean that it did not run, or that its end is not known; Status has theirs.
func (r *Run) Run(ctx context.Context) error {
	r.stderr = &serial{w: r.Stderr}
	r.Stderr = r.stderr
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
	if err := r.openTTY(); err != nil {
		return err
	}
	defer r.tty.close()
	forwards, err := r.listen(ctx)
	if err != nil {
		return err
	}
	defer forwards.close()
	if r.Session == "" {
		if err := r.prepare(ctx); err != nil {
			return err
		}
	}
	if r.DryRun {
		return r.plan(ctx)
	}
	if err := r.bring.check(ctx); err != nil {
		return err
	}
	s, n, err := r.start(ctx, stdin)
	if err != nil {
		return err
	}
	if r.Detach {
		return show(r.view(), s, nil, func(w io.Writer, s wire.Session, _ time.Time) { fmt.Fprintln(w, s.ID) })
	}
	forwards.begin(ctx, r.Stderr, s.ID)
	return r.follow(ctx, a, s, n)
}

// listen begins to listen on the local ports of the forwards.
func (r *Run) listen(ctx context.Context) (*forwards, error) {
	if r.Session != "" && len(r.Ports) > 0 {
		s, err := r.Client.Session(ctx, r.Session)
		if err == nil {
			err = onlyPrivate(s)
		}
		if err != nil {
			return nil, err
		}
	}
	return listen(r.Client, r.Stderr, r.Ports)
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

// send makes the source the repository of the new session.
func (r *Run) send(ctx context.Context) error {
	from := Source{Client: r.Client, Name: "--repo", Where: r.Source, Ref: r.New.Ref, Changes: r.Changes}
	if from.Changes == ChangesOffered && (r.New.Ref != "" || r.New.Patch != "") {
		from.Changes = ChangesLeft // another state of the files is meant
	}
	found, err := from.Send(ctx)
	if err != nil {
		return err
	}
	r.reportChanges(ctx, found)
	if err := r.bringTo(found); err != nil {
		return err
	}
	if found.LFS(ctx) {
		fmt.Fprintf(r.Stderr, "--repo %s has files in Git LFS, and the command gets their pointers "+
			"(with --network, `git lfs pull` in the command fetches them)\n", r.Source)
	}
	r.New.Repository, r.New.Ref, r.top = found.Repository, found.Ref, found.Dir
	r.Command.Directory = cmp.Or(r.Command.Directory, found.Within)
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
	return r.conclude(ctx, a, s, end.Command)
}

// conclude brings the changes of a command that has ended, closes the session, and returns how the command ended.
func (r *Run) conclude(ctx context.Context, a *attendance, s wire.Session, command wire.Command) error {
	brought, open := r.bringChanges(ctx, a, s, command)
	if open {
		r.Keep = true
	}
	s = r.finish(ctx, s.ID, command.Number)
	if command.Outcome.PatchKnown {
		fmt.Fprintln(r.Stderr, "the commit has the change of the patch already")
	}
	if o := command.Outcome; o.Note != "" && (o.Word == outcome.Succeeded || o.Word == outcome.Failed) {
		fmt.Fprintln(r.Stderr, listing.Printable(o.Note)) // else it is in the text
	}
	if r.JSON {
		s.Commands = []wire.Command{command}
		if err := writeJSON(r.Stdout, s); err != nil {
			return err
		}
		return cmp.Or(brought, cli.Exit(command.Outcome.ExitStatus, nil))
	}
	return cmp.Or(brought, ended(*command.Outcome, OwnProgram(command)))
}

// read passes the output of a command on until it has ended. With JSON the record is all that is written.
func (r *Run) read(ctx context.Context, id string, n int) (wire.LogEnd, error) {
	if r.JSON {
		return r.Client.Wait(ctx, id, n)
	}
	if r.tty != nil {
		defer r.tty.begin(ctx, id, n)()
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
