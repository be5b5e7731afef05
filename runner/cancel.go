package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// askBound bounds a request to the main process of a unit.
const askBound = 5 * time.Second

// Cancel ends a command of a session, or all of them if number is 0, and closes the session then. Commands that wait
// end at once, one that runs within its grace. by names the user.
func (r *Runner) Cancel(ctx context.Context, v store.Viewer, id string, number int, by string) error {
	s, err := r.Store.Session(ctx, v, id)
	if err != nil {
		return about(id, err)
	}
	found := false
	for _, c := range s.Commands {
		if c.State == wire.CommandEnded || (number != 0 && c.Number != number) {
			continue
		}
		found = true
		if err := r.cancel(ctx, key{id, c.Number}, by); err != nil && !errors.Is(err, store.ErrState) {
			return err
		}
	}
	if number != 0 && !found {
		return refuse(wire.Conflict, "`codex-runner show "+id+"` says how it ended",
			"the session has no command %d that has not ended", number)
	}
	if number == 0 {
		r.closeSoon(ctx, id)
	}
	return nil
}

// cancel ends one command. The error is store.ErrState if it has ended.
func (r *Runner) cancel(ctx context.Context, k key, by string) error {
	if err := r.Store.Cancel(ctx, k.session, k.number, by); err != nil {
		return err
	}
	r.mu.Lock()
	var owner uint32
	if l := r.state.sessions[k.session]; l != nil {
		owner = l.owner
	}
	waited := r.state.withdraw(k)
	closing := waited && r.state.settle(k.session)
	c := r.state.running[k]
	reached := false
	if c != nil && c.cancelled == "" {
		c.cancelled = by
		reached = c.reached
	}
	r.mu.Unlock()
	switch {
	case waited:
		ending := endingOf(outcome.Facts{CancelledBy: by})
		err := r.Store.End(ctx, k.session, k.number, ending, time.Now())
		if err == nil {
			r.recordEnded(k, paths.SessionUnit(k.session), ending)
			r.removeInput(owner, k)
		}
		r.report()
		if closing {
			r.close(ctx, k.session)
		}
		return err
	case reached:
		r.ask(ctx, c, by)
	}
	return nil // one that is not reached yet is asked by follow
}

// closeSoon closes a session now, or at the end of its last command.
func (r *Runner) closeSoon(ctx context.Context, id string) {
	r.mu.Lock()
	now := true
	if l := r.state.sessions[id]; l != nil {
		l.closing = true
		now = r.state.settle(id)
	}
	r.mu.Unlock()
	if now {
		r.close(ctx, id)
	}
}

// close closes a session if it is idle and its last unit has ended, and reports whether it did.
func (r *Runner) close(ctx context.Context, id string) bool {
	if !r.closeIdle(ctx, id, r.takes(ctx, id)) {
		return false
	}
	r.removeSecrets(id)
	r.recordClosed(id)
	r.report()
	r.tidy()
	return true
}

func (r *Runner) closeIdle(ctx context.Context, id string, bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.sessions[id] != nil {
		return false // its workspace is in use
	}
	err := r.Store.CloseSession(ctx, id, bytes, time.Now())
	if err != nil && !errors.Is(err, store.ErrState) && ctx.Err() == nil {
		r.Logger.Error("cannot close a session", "session", id, "error", err)
	}
	return err == nil
}

// ask has the main process of a unit cancel its command. If it does not answer, though it runs, the unit is stopped.
func (r *Runner) ask(ctx context.Context, c *run, by string) {
	err := r.request(ctx, c.Session, exec.Request{Version: session.Version, Do: exec.Cancel, By: by})
	if err != nil {
		r.Logger.Debug("the session does not answer", "session", c.Session, "error", err)
	}
	r.expectCancel(c, err)
}

func (r *Runner) request(ctx context.Context, id string, request exec.Request) error {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(r.RuntimeDir, paths.ControlDir(id), paths.ControlSocket))
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	err = conn.SetDeadline(deadline)
	if err == nil {
		err = json.NewEncoder(conn).Encode(request)
	}
	var reply exec.Reply
	if err == nil {
		err = json.NewDecoder(conn).Decode(&reply)
	}
	if err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	return err
}

// Release ends the hold of the command of a session that is held. Its unit ends soon after.
func (r *Runner) Release(ctx context.Context, v store.Viewer, id string) error {
	s, err := r.Store.Session(ctx, v, id)
	if err != nil {
		return about(id, err)
	}
	held := func(c wire.Command) bool { return c.State == wire.CommandHeld }
	if !slices.ContainsFunc(s.Commands, held) {
		return refuse(wire.Conflict, "`codex-runner show "+id+"` says what it does",
			"no command of the session %s is held", id)
	}
	err = r.request(ctx, id, exec.Request{Version: session.Version, Do: exec.Release})
	if err != nil && !gone(err) {
		return fmt.Errorf("cannot end the hold: %w", err)
	}
	return nil
}

// gone reports whether a request was too late: the main process has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, io.EOF) ||
		errors.Is(err, unix.ECONNRESET)
}

// PutStdin is the standard input of a command that waits for it.
func (r *Runner) PutStdin(ctx context.Context, v store.Viewer, id string, number int,
	from io.Reader) (wire.Command, error) {
	if err := r.awaitsStdin(ctx, v, id, number); err != nil {
		return wire.Command{}, err
	}
	s, err := r.Store.Session(ctx, v, id)
	if err != nil {
		return wire.Command{}, about(id, err)
	}
	path, upload, err := r.receiveStdin(s.Owner.UID, key{id, number}, from, MaxStdin)
	if err != nil {
		return wire.Command{}, fmt.Errorf("cannot keep the standard input: %w", err)
	}
	upload.settle(key{id, number})
	if err := r.giveStdin(ctx, v, id, number, path); err != nil {
		os.Remove(path)
		upload.drop()
		return wire.Command{}, err
	}
	r.mu.Lock()
	if l := r.state.sessions[id]; l != nil {
		for i := range l.waiting {
			if w := &l.waiting[i]; w.number == number {
				w.ready, w.since = true, time.Now()
			}
		}
		r.state.offer(id)
		r.state.change(r.wake)
	}
	r.mu.Unlock()
	return r.Command(ctx, v, id, number)
}

// awaitsStdin returns an error if a command does not wait for its standard input.
func (r *Runner) awaitsStdin(ctx context.Context, v store.Viewer, id string, number int) error {
	c, err := r.Command(ctx, v, id, number)
	if err == nil && c.State != wire.CommandAwaitingStdin {
		err = refuse(wire.Conflict, "send it once, for a command that was made with stdin",
			"command %d does not wait for its input", number)
	}
	return err
}

// giveStdin gives a command the file at path. Of requests at the same time, the first one has it.
func (r *Runner) giveStdin(ctx context.Context, v store.Viewer, id string, number int, path string) error {
	r.stdin.Lock()
	defer r.stdin.Unlock()
	if err := r.awaitsStdin(ctx, v, id, number); err != nil {
		return err
	}
	if err := os.Rename(path, r.file(id, number, paths.Stdin)); err != nil {
		return fmt.Errorf("cannot keep the standard input: %w", err)
	}
	if err := r.Store.Move(ctx, id, number, wire.CommandAwaitingStdin, wire.CommandQueued); err != nil {
		return about(id, err)
	}
	return nil
}

// MaxStdin bounds the standard input of a command, in bytes.
const MaxStdin = 1 << 30
