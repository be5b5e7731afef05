package hands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/session"
)

const (
	// diffBound bounds the wait for the changes of a session that is closed because its source has changed.
	diffBound = time.Minute
	// mostOpen bounds the open sessions among which those without a record are searched.
	mostOpen = 1000
)

// lifecycle begins and ends sessions and their exec-servers.
type lifecycle struct{ *Hands }

// command is an exec-server with the token. The mark is among its arguments.
func (h lifecycle) command(token string) wire.NewCommand {
	c := client.ExecServer(h.Program, token)
	c.Args = append([]string{"/bin/sh", "-c", `exec "$@"`, h.Mark}, c.Args...)
	c.Limits = h.Limits
	return c
}

// start makes an exec-server the next command of the session, or of a new one. gone is why the session has no workspace
// any more; empty: it has one.
func (h lifecycle) start(ctx context.Context, gone string) error {
	token := rand.Text() + rand.Text()
	made, number, err := h.next(ctx, h.command(token), gone)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record, h.number, h.token = made, number, token
	return made.write(h.Dir)
}

// next queues the command, in the session that is there if it has the same source.
func (h lifecycle) next(
	ctx context.Context, command wire.NewCommand, gone string,
) (made record, number int, err error) {
	h.mu.Lock()
	made = h.record
	h.mu.Unlock()
	switch {
	case made.Session == "":
	case made.Source != h.Source:
		gone = fmt.Sprintf("repo, ref or setup of [hands] have changed, from %.100s %.100s", made.Source.Repo,
			made.Source.Ref)
		if err := h.retire(ctx, made.Session); err != nil {
			return made, 0, err
		}
	case gone != "":
		if err := h.close(ctx, made.Session); err != nil {
			return made, 0, err
		}
	default:
		number, err = h.again(ctx, made.Session, command)
		if !refusedAs(err, wire.NotFound, wire.Conflict) {
			return made, number, err
		}
		gone = "the session was closed, as its workspace had not been used or another session needed it"
	}
	if made.Session != "" {
		h.Logger.Warn("the session of the hands is closed, and a new one begins", "session",
			made.Session, "reason", gone, "error", err)
	}
	id, err := h.create(ctx, command)
	if err != nil {
		return made, 0, err
	}
	made = made.renewed(gone, time.Now())
	made.Session, made.Source, made.Served = id, h.Source, false
	return made, 1, nil
}

// again ends the processes of the session, and queues the command.
func (h lifecycle) again(ctx context.Context, id string, command wire.NewCommand) (number int, err error) {
	if err := h.settle(ctx, id, func(wire.Command) bool { return true }); err != nil {
		return 0, err
	}
	command.Kept = true
	added, err := h.Client.AddCommand(ctx, id, command)
	return added.Number, err
}

// settle waits until all commands of a session have ended, of which it cancels some.
func (h lifecycle) settle(ctx context.Context, id string, cancels func(wire.Command) bool) error {
	s, err := h.Client.Session(ctx, id)
	if err != nil {
		return err
	}
	for _, c := range s.Commands {
		if c.State == wire.CommandEnded {
			continue
		}
		if cancels(c) {
			if _, err := h.Client.Cancel(ctx, id, c.Number); err != nil && !refusedAs(err, wire.Conflict) {
				return err
			}
		}
		if _, err := h.Client.Wait(ctx, id, c.Number); err != nil {
			return err
		}
	}
	return nil
}

// retire has codex-runner keep the changes of a session, and closes it.
func (h lifecycle) retire(ctx context.Context, id string) error {
	bounded, cancel := context.WithTimeout(ctx, diffBound)
	defer cancel()
	isDiff := func(c wire.Command) bool { return session.IsDiff(c.Args) }
	err := h.settle(bounded, id, func(c wire.Command) bool { return !isDiff(c) })
	var s wire.Session
	if err == nil {
		s, err = h.Client.Session(bounded, id)
	}
	if n := len(s.Commands); err == nil && n > 0 && !isDiff(s.Commands[n-1]) { // the main process was killed
		if _, err = h.Client.AddCommand(bounded, id, h.diff(s)); err == nil {
			err = h.settle(bounded, id, func(wire.Command) bool { return false })
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !refusedAs(err, wire.NotFound, wire.Conflict) {
		h.Logger.Warn("codex-runner does not keep the last changes of hands", "session", id, "error", err)
	}
	return h.close(ctx, id)
}

func (h lifecycle) diff(s wire.Session) wire.NewCommand {
	return wire.NewCommand{Args: session.DiffOrder{Commit: s.Commit}.Args()}
}

// close closes a session.
func (h lifecycle) close(ctx context.Context, id string) error {
	if _, err := h.Client.Cancel(ctx, id, 0); err != nil && !refusedAs(err, wire.NotFound, wire.Conflict) {
		return err
	}
	return nil
}

func (h lifecycle) create(ctx context.Context, command wire.NewCommand) (id string, err error) {
	if err := h.sweep(ctx); err != nil {
		return "", err
	}
	n := wire.NewSession{Repository: h.Source.Repo, Ref: h.Source.Ref, SetUp: h.Source.SetUp,
		IdleTimeout: wire.Duration(h.Idle), Commands: []wire.NewCommand{command}}
	if isDirectory(h.Source.Repo) {
		if n.Repository, n.Ref, err = h.Send(ctx, h.Source.Repo, h.Source.Ref); err != nil {
			return "", err
		}
	}
	made, err := h.Client.CreateSession(ctx, n)
	return made.ID, err
}

// sweep closes the sessions with the mark that the record does not name: a main process was killed before it recorded
// one, or the record is lost. Each would have a workspace for its whole idle time.
func (h lifecycle) sweep(ctx context.Context) error {
	for _, state := range []wire.SessionState{wire.SessionActive, wire.SessionIdle} {
		open, err := h.Client.Sessions(ctx, client.Filter{State: state, Limit: mostOpen})
		if err != nil {
			return err
		}
		for _, s := range open {
			ours, err := h.isOurs(ctx, s)
			if err == nil && ours {
				h.Logger.Warn("a session of the hands without a record is closed", "session", s.ID)
				err = h.retire(ctx, s.ID)
			}
			if err != nil && !refusedAs(err, wire.NotFound) {
				return err
			}
		}
	}
	return nil
}

// isOurs reports whether a session, of which a list has the last command, is another one with the mark.
func (h lifecycle) isOurs(ctx context.Context, s wire.Session) (is bool, err error) {
	n := len(s.Commands)
	if n == 0 || s.ID == h.Session() {
		return false, nil
	}
	if session.IsDiff(s.Commands[n-1].Args) { // the main process has ended in order
		if s, err = h.Client.Session(ctx, s.ID); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(s.Commands, func(c wire.Command) bool { return isMarked(c.Args, h.Mark) }), nil
}

// isMarked reports whether a command is an exec-server with the mark.
func isMarked(args []string, mark string) bool {
	const at = 3 // behind the shell and its script
	return len(args) > at && args[at] == mark
}

func isDirectory(repo string) bool { return repo != "" && repo[0] == '/' }

// refusedAs reports whether codex-runner has refused a request with one of the codes.
func refusedAs(err error, codes ...wire.Code) bool {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		return false
	}
	for _, code := range codes {
		if refused.Code == code {
			return true
		}
	}
	return false
}
