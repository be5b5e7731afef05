package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/control"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/files"
	"codex-proxy/runner/inputs"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/repositories"
	"codex-proxy/runner/runs"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/store"
)

// Sessions serves the requests for sessions. It has no state of its own, so its methods are safe for concurrent use.
type Sessions struct {
	store        *store.Store
	files        files.Files
	queue        *queue.Queue
	runs         *runs.Runs
	inputs       *inputs.Inputs
	repositories *repositories.Repositories
	environments *environments.Environments
	checks       checks
	sandbox      sandbox.Settings
	retention    time.Duration
	logger       *slog.Logger

	room func() error // returns an error if the disk has no room for a command
	trim func()       // has workspaces kept within their bounds
}

// Session returns a session with all its commands.
func (s *Sessions) Session(ctx context.Context, v store.Viewer, id string) (wire.Session, error) {
	found, err := s.store.Sessions.Find(ctx, v, id)
	if err != nil {
		return found, about(id, err)
	}
	for i, c := range found.Commands {
		if c.State == wire.CommandQueued {
			found.Commands[i].Position = s.queue.Position(queue.Key{Session: id, Number: c.Number})
		}
	}
	return found, nil
}

// Command returns one command.
func (s *Sessions) Command(ctx context.Context, v store.Viewer, id string, number int) (wire.Command, error) {
	found, err := s.Session(ctx, v, id)
	if err != nil {
		return wire.Command{}, err
	}
	return commandOf(found, number)
}

func commandOf(s wire.Session, number int) (wire.Command, error) {
	i := slices.IndexFunc(s.Commands, func(c wire.Command) bool { return c.Number == number })
	if i < 0 {
		return wire.Command{}, about(s.ID, store.ErrNotFound)
	}
	return s.Commands[i], nil
}

// Log returns the paths of the log of a command, which exist from the start of its unit on.
func (s *Sessions) Log(id string, number int) (output, index string) {
	return s.files.Path(id, number, paths.Output), s.files.Path(id, number, paths.Index)
}

// Cancel ends a command of a session, or all of them if number is 0, and closes the session then. Commands that wait
// end at once, one that runs within its grace. by names the user.
func (s *Sessions) Cancel(ctx context.Context, v store.Viewer, id string, number int, by string) error {
	of, err := s.store.Sessions.Find(ctx, v, id)
	if err != nil {
		return about(id, err)
	}
	found := false
	for _, c := range of.Commands {
		if c.State == wire.CommandEnded || (number != 0 && c.Number != number) {
			continue
		}
		found = true
		err := s.runs.Cancel(ctx, queue.Key{Session: id, Number: c.Number}, by)
		if err != nil && !errors.Is(err, store.ErrState) {
			return err
		}
	}
	if number != 0 && !found {
		return wire.Refuse(wire.Conflict, "`codex-runner show "+id+"` says how it ended",
			"the session has no command %d that has not ended", number)
	}
	if number == 0 && s.queue.CloseSoon(id) {
		closer{s}.close(ctx, id)
	}
	return nil
}

// Release ends the hold of the command of a session that is held. Its unit ends soon after.
func (s *Sessions) Release(ctx context.Context, v store.Viewer, id string) error {
	found, err := s.store.Sessions.Find(ctx, v, id)
	if err != nil {
		return about(id, err)
	}
	held := func(c wire.Command) bool { return c.State == wire.CommandHeld }
	if !slices.ContainsFunc(found.Commands, held) {
		return wire.Refuse(wire.Conflict, "`codex-runner show "+id+"` says what it does",
			"no command of the session %s is held", id)
	}
	err = control.Dir(s.files.Control(id)).Ask(ctx, exec.Request{Do: exec.Release})
	if err != nil && !control.Gone(err) {
		return fmt.Errorf("cannot end the hold: %w", err)
	}
	return nil
}

// PutStdin is the standard input of a command that waits for it.
func (s *Sessions) PutStdin(ctx context.Context, v store.Viewer, id string, number int,
	from io.Reader) (wire.Command, error) {
	owner, err := s.awaitsStdin(ctx, v, id, number)
	if err != nil {
		return wire.Command{}, err
	}
	k := queue.Key{Session: id, Number: number}
	err = s.inputs.Put(owner, k, from, func() error {
		_, err := s.awaitsStdin(ctx, v, id, number)
		return err
	}, func() error {
		return about(id, s.store.Commands.Move(ctx, id, number, wire.CommandAwaitingStdin, wire.CommandQueued))
	})
	if err != nil {
		return wire.Command{}, err
	}
	s.queue.InputReady(k)
	return s.Command(ctx, v, id, number)
}

// awaitsStdin returns the owner of a command, and an error if it does not wait for its standard input.
func (s *Sessions) awaitsStdin(ctx context.Context, v store.Viewer, id string, number int) (owner uint32, err error) {
	found, err := s.store.Sessions.Find(ctx, v, id)
	if err != nil {
		return 0, about(id, err)
	}
	c, err := commandOf(found, number)
	if err == nil && c.State != wire.CommandAwaitingStdin {
		err = wire.Refuse(wire.Conflict, "send it once, for a command that was made with stdin",
			"command %d does not wait for its input", number)
	}
	return found.Owner.UID, err
}
