package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"

	"codex-proxy/runner/disk"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/setup"
)

// Build is the order to build an environment, or to run the set-up of a commit.
type Build struct {
	Version int               `json:"version"`
	Order   environment.Order `json:"order,omitzero"`
	SetUp   *setup.Build      `json:"set_up,omitempty"` // in place of Order
	Bytes   int64             `json:"bytes"`            // that it may take on the disk
	// Sandbox has what every build finds in its sandbox by the settings, or is nil.
	Sandbox *sandbox.Given `json:"sandbox,omitempty"`
}

// Built is the result of a Build.
type Built struct {
	Version int      `json:"version"`
	Failure *Failure `json:"failure,omitempty"`
	Bytes   int64    `json:"bytes,omitempty"` // that the environment takes on the disk
	// Snapshot is the one that the commit needs; its key is "" if it has no set-up that does anything. Made reports
	// that it was made.
	setup.Snapshot
	Made bool `json:"made,omitempty"`
	// Test reports that the script has a Test, and the snapshot not its results.
	Test bool `json:"test,omitempty"`
	// Gone reports that the snapshot to which the results of a Test were to be added is not there any more.
	Gone bool `json:"gone,omitempty"`
	// From is the key of the snapshot that the build has to begin with, if it is not ""; nothing was made then.
	From string `json:"from,omitempty"`
	// Lacks are programs that the host has to have for the rest of the set-up, as setup.LeftOut has them.
	Lacks []string `json:"lacks,omitempty"`
	// Facts are the reports of the host's tools.
	Facts environment.Facts `json:"facts,omitempty"`
}

// Key is that of the environment; of a set-up, the key of the build.
func (b Build) Key() string {
	if b.SetUp != nil {
		return b.SetUp.Key()
	}
	return b.Order.Key()
}

// Run builds the environment, or runs the set-up. A session sends the order of an environment: Run builds it only if it
// has the key of the instance. The output of the tools goes to the log. An error means that there is no result.
func (b Build) Run(ctx context.Context, files Files, instance string, place Place) error {
	if err := files.check(); err != nil {
		return err
	}
	err := files.order(&b)
	if err == nil {
		err = checkVersion(b.Version)
	}
	if err == nil && paths.EnvironmentInstance(b.Key()) != instance {
		err = fmt.Errorf("the order is that of the environment %s: it cannot be %s", b.Key(), instance)
	}
	built := Built{Version: Version}
	switch {
	case err != nil:
	case b.SetUp != nil:
		err = b.setUp(ctx, place, files[paths.OutputFile], &built)
	default:
		err = b.build(ctx, place, files[paths.OutputFile], &built)
	}
	built.Failure = failure(err, Failed)
	return files.report(&built)
}

// host is where the build finds its tools, and the variables of all builds.
func (b Build) host(programs sandbox.Programs) environment.Host {
	env := programs.Env()
	if b.Sandbox != nil {
		programs.First = b.Sandbox.Path
		maps.Copy(env, b.Sandbox.Env)
	}
	return environment.Host{Path: programs.Path(), Env: env}
}

// build builds the environment.
func (b Build) build(ctx context.Context, place Place, output *os.File, built *Built) (err error) {
	dir := filepath.Join(place.Environments, b.Key())
	built.Bytes, err = b.bounded(ctx, []string{dir}, func(ctx context.Context) error {
		return environment.Build(ctx, b.host(place.Programs), b.Order, dir, &lastOutput{file: output})
	})
	if errors.Is(err, errTooLarge) {
		err = errors.Join(err, environment.Discard(dir))
	}
	return err
}

// bounded returns how many bytes the files in dirs take on the disk after do, which it ends when they take more than
// b.Bytes.
func (b Build) bounded(ctx context.Context, dirs []string, do func(context.Context) error) (int64, error) {
	within, cancel := context.WithCancelCause(ctx)
	watched := goWatch(within, append(dirs, os.TempDir()), b.Bytes, cancel)
	err := do(within)
	cancel(nil)
	<-watched
	taken := disk.Taken(context.WithoutCancel(ctx), dirs, math.MaxInt64)
	if err == nil && taken > b.Bytes || err != nil && errors.Is(context.Cause(within), errTooLarge) {
		what, remedy := "the environment", "need fewer packages"
		if b.SetUp != nil {
			what, remedy = "what the set-up leaves", "have it remove what no command needs"
		}
		err = fmt.Errorf("%s %w than %d bytes: %s, or raise max_bytes of [environments] in runner.toml", what, errTooLarge,
			b.Bytes, remedy)
	}
	return taken, err
}

// goWatch cancels with errTooLarge when the files in dirs take more than limit bytes. The channel is closed when ctx
// has ended.
func goWatch(ctx context.Context, dirs []string, limit int64, cancel func(error)) <-chan struct{} {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if disk.Watch(ctx, disk.Files{Dirs: dirs}, limit, func(int64) {}) {
			cancel(errTooLarge)
		}
	}()
	return watched
}

// errTooLarge is why a build was ended.
var errTooLarge = errors.New("takes more")

// maxOutput bounds the log of a build, in bytes.
const maxOutput = 8 << 20

// lastOutput begins the file anew when it has maxOutput bytes: the end has the reason why a build failed.
type lastOutput struct {
	file *os.File
	size int64
}

// Write implements io.Writer.
func (l *lastOutput) Write(p []byte) (int, error) {
	if l.size+int64(len(p)) > maxOutput {
		if err := l.file.Truncate(0); err != nil {
			return 0, err
		}
		l.size = 0
	}
	n, err := l.file.WriteAt(p, l.size)
	l.size += int64(n)
	return n, err
}
