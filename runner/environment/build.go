package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ReadyFile is the file of a whole environment. It has the environment's key.
const ReadyFile = ".ready"

// Place is where a build works.
type Place struct {
	Dir       string // the environment, at the path where sessions see it: programs there name it
	Manifests string // the directory with the manifests
	Scratch   string // for caches; it goes with the build
}

// BuildError is a step of a build that failed.
type BuildError struct {
	Args []string
	Err  error // an *exec.ExitError if the step ended by itself
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("%s: %v", strings.Join(e.Args, " "), e.Err)
}

// Unwrap returns the error of the process.
func (e *BuildError) Unwrap() error { return e.Err }

// Ready reports whether dir has the whole environment of that key.
func Ready(dir, key string) bool {
	data, err := os.ReadFile(filepath.Join(dir, ReadyFile))
	return err == nil && string(data) == key+"\n"
}

// Build makes the environment in dir, which does not exist, at the path where sessions see it later. The manifests do
// not stay there, as they may have passwords. The output of the steps goes to log. The errors are a *BuildError, one of
// the store or the file system, or the end of ctx, which kills the step and its children.
func Build(ctx context.Context, host Host, order Order, dir string, log io.Writer) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := order.Store.Verify(); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "codex-runner-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	place := Place{Dir: dir, Manifests: filepath.Join(dir, "manifests"), Scratch: scratch}
	err = errors.Join(os.Mkdir(place.Manifests, 0o755), order.eachManifest(place.Manifests,
		func(in *os.Root, m Manifest) error { return in.WriteFile(m.Path, m.Content, 0o644) }))
	if err != nil {
		return fmt.Errorf("cannot write the manifests: %w", err)
	}
	for _, args := range order.steps(place) {
		if err := place.run(ctx, host, args, log); err != nil {
			return err
		}
	}
	err = order.eachManifest(place.Manifests, func(in *os.Root, m Manifest) error { return ignoreMissing(in.Remove(m.Path)) })
	if err != nil {
		return fmt.Errorf("cannot remove the manifests: %w", err)
	}
	return markReady(dir, order.Key())
}

// Discard has Ready no longer find the environment in dir. A directory that is half removed is not whole.
func Discard(dir string) error { return ignoreMissing(os.Remove(filepath.Join(dir, ReadyFile))) }

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// eachManifest does something with each manifest in a directory, whatever its path.
func (o Order) eachManifest(dir string, do func(in *os.Root, m Manifest) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, m := range o.Manifests {
		if err := do(root, m); err != nil {
			return err
		}
	}
	return nil
}

func (p Place) run(ctx context.Context, host Host, args []string, log io.Writer) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Manifests, log, log
	for name, value := range host.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	// The last one of a name counts.
	cmd.Env = append(cmd.Env, "PATH="+host.Path, "LC_ALL=C.UTF-8", "HOME="+p.Scratch, "TMPDIR="+p.Scratch)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for processes that left the group and hold the pipe to log
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &BuildError{args, err}
	}
	return nil
}

// markReady writes the last file of a build after everything else is on the disk (syncfs(2)), so that a crash of the
// host leaves no mark without the rest.
func markReady(dir, key string) error {
	fresh := filepath.Join(dir, ReadyFile+".new")
	file, err := os.Create(fresh)
	if err != nil {
		return err
	}
	_, err = file.WriteString(key + "\n")
	if err = errors.Join(err, unix.Syncfs(int(file.Fd())), file.Close()); err != nil {
		return fmt.Errorf("cannot finish the environment: %w", err)
	}
	return os.Rename(fresh, filepath.Join(dir, ReadyFile))
}
