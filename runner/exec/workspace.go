package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/patch"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

// Workspace is the Preparation that makes the workspace by Spec.Workspace.
type Workspace struct {
	Repository string   // paths.Repository
	Record     *os.File // of the slot; see package workspace
	Previous   *os.File // the tree of another session of the repository, or nil
	Snapshot   *os.File // has the key of the set-up that the workspace has had, and Record the files; nil without one
}

// errNothingLeft is the error about the changes in a workspace that another session has got.
var errNothingLeft = errors.New("the session has lost its workspace to another one, and with it what its commands " +
	"have changed: run them again (run --apply and --branch take the changes at once)")

// Stage is session.WorkspaceTask.
func (Workspace) Stage() session.Stage { return session.WorkspaceTask }

// Prepare empties the workspace, or checks the commit out.
func (w Workspace) Prepare(ctx context.Context, l *Launch) error {
	want := l.Spec.Workspace
	if want == nil {
		return nil
	}
	if session.IsDiff(l.Spec.Args) {
		return errNothingLeft
	}
	err := w.fill(ctx, l, want)
	if w.Previous != nil {
		err = errors.Join(err, w.Previous.Close()) // no command gets it
	}
	return err
}

// maxKey bounds the key of a set-up, in bytes.
const maxKey = 64

func (w Workspace) fill(ctx context.Context, l *Launch, want *session.Workspace) error {
	if want.Commit == "" {
		return workspace.Empty(l.Dir)
	}
	mirror := filepath.Join(w.Repository, paths.Mirror)
	if _, err := os.Stat(mirror); err != nil {
		return &mirrorError{fmt.Errorf("cannot find the mirror of the repository %s: %w (fetch it again)",
			l.Spec.Repository, err)}
	}
	report, err := workspace.Checkout{
		Source: workspace.Source{Mirror: mirror, URL: want.URL, Commit: want.Commit},
		Tree:   l.Dir, Record: w.Record, Previous: w.Previous, Leave: w.Snapshot != nil, Mirrors: w.module,
	}.Run(ctx)
	if w.Snapshot != nil && report.Recovered == nil { // else nothing was left
		key, readErr := io.ReadAll(io.NewSectionReader(w.Snapshot, 0, maxKey))
		if readErr != nil {
			return readErr
		}
		l.Snapshot = string(key)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, workspace.ErrDiskFull) {
		return &mirrorError{err} // Run has already made the tree again
	}
	return err
}

// mirrorError is an error of which the mirror seems to be the reason.
type mirrorError struct{ error }

func (e *mirrorError) Unwrap() error { return e.error }

// module returns the mirror of a submodule.
func (w Workspace) module(url string) (string, error) {
	mirror := filepath.Join(w.Repository, paths.ModuleMirror(url))
	if _, err := os.Stat(mirror); errors.Is(err, fs.ErrNotExist) {
		return "", workspace.ErrNoMirror
	} else if err != nil {
		return "", err
	}
	return mirror, nil
}

// Patch is the Preparation that applies the patch of the command to a commit.
type Patch struct {
	File *os.File // nil without a patch
}

// Stage is session.PatchTask.
func (Patch) Stage() session.Stage { return session.PatchTask }

// Prepare applies the patch. One that has been applied already changes nothing.
func (p Patch) Prepare(ctx context.Context, l *Launch) error {
	if p.File == nil || session.IsDiff(l.Spec.Args) {
		return nil
	}
	if l.Spec.Workspace == nil || l.Spec.Workspace.Commit == "" {
		return errors.New("there is no commit to apply the patch to: name a repository")
	}
	text, err := io.ReadAll(io.NewSectionReader(p.File, 0, patch.MaxBytes+1))
	if err != nil {
		return fmt.Errorf("cannot read the patch: %w", err)
	}
	parsed, err := patch.Parse(text)
	if err != nil {
		return err
	}
	tree, err := os.OpenRoot(l.Dir)
	if err != nil {
		return err
	}
	defer tree.Close()
	result, err := parsed.Apply(ctx, gitOf{l.Dir}, tree)
	l.PatchKnown = result == patch.AppliedAlready
	return err
}

// Settle is the Preparation that completes root's note in the slot, once the workspace is made and has the patch: the
// next command takes it as it is.
type Settle struct {
	Tenant *os.File // of the slot, with the ID of this session
}

// Stage is session.WorkspaceTask.
func (Settle) Stage() session.Stage { return session.WorkspaceTask }

// Prepare writes the note.
func (s Settle) Prepare(_ context.Context, l *Launch) error {
	if l.Spec.Workspace == nil {
		return nil
	}
	_, err := s.Tenant.WriteString(paths.Settled)
	return err
}

// gitOf is git in a tree that Workspace has just made.
type gitOf struct{ dir string }

// Run implements patch.Git.
func (g gitOf) Run(ctx context.Context, stdin []byte, args ...string) (patch.Output, error) {
	stdout, err := workspace.Git(ctx, g.dir, stdin, args...)
	if failed, ok := errors.AsType[*workspace.GitError](err); ok && failed.Status() > 0 {
		return patch.Output{Status: failed.Status(), Stdout: stdout, Stderr: []byte(failed.Stderr)}, nil
	}
	return patch.Output{Stdout: stdout}, err
}

// preserveAfter is how long a command has to run before the workspace that was made for it is written to the disk: the
// kernel does so by itself within half a minute, and a short command needs no more than its result.
const preserveAfter = time.Second

const (
	// maxDirty is the most that the machine may have to write to its disks for that, in bytes: the kernel writes for
	// all programs together, and nothing interrupts it, also not the end of the command.
	maxDirty = 256 << 20
	// dirtyPause is the time until the next look at more.
	dirtyPause = time.Second
	// dirtyBound is how long a command waits for that: a host may always have more to write. A command that has run for
	// so long bears that its end waits for the disk.
	dirtyBound = 2 * time.Minute
)

// preserve has the files of a workspace that was made for this command written to the disk, and notes that: after a
// loss of power the session goes on in that workspace, and else in a new one. end waits for a write that has begun.
func (s *Shim) preserve(launch *Launch) (end func()) {
	tenant := s.Files[paths.TenantFile]
	if launch.Spec.Workspace == nil || tenant == nil {
		return func() {}
	}
	return background(func(ctx context.Context) {
		began := time.Now()
		for pause := preserveAfter; ; pause = dirtyPause {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			if s.Dirty == nil || s.Dirty() <= maxDirty || time.Since(began) >= dirtyBound {
				break
			}
		}
		if err := synced(launch.Dir); err == nil {
			_, _ = tenant.WriteString(strings.TrimPrefix(paths.OnDisk, paths.Settled)) // else it is made anew
		}
	})
}

// Dirty is how much all programs of the machine have written that is not on a disk yet, in bytes (proc_meminfo(5)); 0
// if that is unknown.
func Dirty() (bytes int64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "Dirty" && name != "Writeback" {
			continue
		}
		var kB int64
		_, _ = fmt.Sscan(rest, &kB) // else it is 0
		bytes += kB << 10
	}
	return bytes
}

// synced returns when all files of the file system of a directory are on the disk.
func synced(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
