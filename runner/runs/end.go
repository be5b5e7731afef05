package runs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// end records the end of a command, unless it has been recorded before.
func (c *run) end(ctx context.Context, ending store.Ending) {
	select {
	case <-c.ended:
		return
	default:
	}
	if ending.Outcome.Word == outcome.WorkspaceFailed {
		recorder{c}.markDamaged(ctx)
	}
	recorder{c}.distrust(ctx)
	ending.Artifacts = recorder{c}.artifacts()
	if !(recorder{c}).record(ctx, ending) {
		return // the next start of the daemon finds the files
	}
	if !c.ran && !ending.Started.IsZero() { // it was over before the daemon saw it
		c.recordStarted(c)
	}
	k := queue.KeyOf(c.Live)
	c.recordEnded(k, c.unit, ending)
	c.Inputs.Remove(c.Owner, k)
	close(c.ended)
	c.Queue.Announce()
}

// recorder writes the end of a command into the store.
type recorder struct{ *run }

// record stores the end of a command, and reports whether it has.
func (c recorder) record(ctx context.Context, ending store.Ending) bool {
	for {
		err := c.Commands.End(ctx, c.Session, c.Number, ending, time.Now())
		if err == nil {
			return true
		}
		if errors.Is(err, store.ErrState) || ctx.Err() != nil {
			return false
		}
		c.Logger.Error("cannot record the end of a command, trying again", "session", c.Session, "command", c.Number,
			"error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
		}
	}
}

// artifacts returns the artifacts of a command. A sandbox wrote their archive.
func (c recorder) artifacts() []artifact.File {
	archive, err := os.Open(c.Files.Path(c.Session, c.Number, paths.Artifacts))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var files []artifact.File
	if err == nil {
		defer archive.Close()
		var info fs.FileInfo
		if info, err = archive.Stat(); err == nil {
			files, err = artifact.Read(archive, info.Size(), c.Artifacts)
		}
	}
	if err != nil {
		c.Logger.Warn("not all artifacts of a command were kept", "session", c.Session, "command", c.Number, "error",
			err)
	}
	return files
}

// markDamaged forgets the mirror of a command that found it damaged, so that the next fetch makes it anew.
func (c recorder) markDamaged(ctx context.Context) {
	result, err := c.Files.Result(c.Session, c.Number)
	if err != nil || result == nil || result.Failure == nil || !result.Failure.Mirror {
		return
	}
	full, err := c.Commands.Find(ctx, c.Session, c.Number)
	if err == nil {
		err = c.Damaged(ctx, full.Repository)
	}
	if err != nil {
		c.Logger.Error("cannot record that a mirror is damaged", "repository", full.Repository, "error", err)
		return
	}
	c.Logger.Warn("a mirror seems to be damaged: the next session of its repository makes it anew",
		"repository", full.Repository, "session", c.Session, "error", result.Failure.Text)
}

// distrust reports that a command has found the files of the set-up of its commit absent or wrong.
func (c recorder) distrust(ctx context.Context) {
	result, err := c.Files.Result(c.Session, c.Number)
	if err != nil || result == nil || result.Snapshot == "" {
		return
	}
	full, err := c.Commands.Find(ctx, c.Session, c.Number)
	if err == nil {
		err = c.Environments.Distrust(ctx, full, result.Snapshot)
	}
	if err != nil && ctx.Err() == nil {
		c.Logger.Error("cannot record that a set-up is to be built anew", "session", c.Session, "error", err)
	}
}

// ending is how a command ended, by the files that it left.
func (c *run) ending(cancelledBy string, refusal error) store.Ending {
	result, err := c.Files.Result(c.Session, c.Number)
	ended, endErr := c.Files.Ended(c.Session, c.Number)
	if err := errors.Join(err, endErr); err != nil {
		c.Logger.Error("cannot read how a command ended", "session", c.Session, "command", c.Number, "error", err)
	}
	if ended == nil && refusal != nil {
		if _, ok := errors.AsType[*environments.BuildError](refusal); ok {
			result = &session.Result{Failure: &session.Failure{Stage: session.EnvTask, Text: refusal.Error()}}
		}
		ended = &session.Ended{Refusal: refusal.Error()}
	}
	return endingOf(outcome.Facts{Result: result, Ended: ended, CancelledBy: cancelledBy,
		Overdue: c.state.isOverdue(), DiskFull: c.Full()})
}

// endingOf decides by facts.
func endingOf(f outcome.Facts) store.Ending {
	e := store.Ending{Ended: time.Now()}
	if f.Result != nil {
		e.Started, e.Invocation = f.Result.Started, f.Result.Invocation
		e.Usage = wire.Usage{
			Output: f.Result.Bytes, User: wire.Duration(f.Result.User), System: wire.Duration(f.Result.System),
			MemoryPeak: int64(f.Result.MemoryPeak),
		}
		e.ArtifactsFault = f.Result.ArtifactsFault
		if !f.Result.Ended.IsZero() {
			e.Ended = f.Result.Ended
		}
		if f.Result.CancelledBy != "" && f.CancelledBy != "" {
			f.Result.CancelledBy = f.CancelledBy
		}
	}
	if f.Ended != nil && !f.Ended.Time.IsZero() {
		e.Invocation, e.Usage.MemoryPeak = f.Ended.Invocation, int64(f.Ended.MemoryPeak)
		if f.Result == nil {
			e.Ended = f.Ended.Time
		}
	}
	e.Outcome = outcome.Decide(f)
	return e
}
