package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"codex-proxy/runner/disk"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
)

// Build is the order to build an environment.
type Build struct {
	Version int               `json:"version"`
	Order   environment.Order `json:"order"`
	Bytes   int64             `json:"bytes"` // that it may take on the disk
}

// Built is the result of a Build.
type Built struct {
	Version int      `json:"version"`
	Failure *Failure `json:"failure,omitempty"`
	Bytes   int64    `json:"bytes,omitempty"` // that the environment takes on the disk
}

// Run builds the environment in the directory above, by its key. A session sends the order: Run builds it only if it
// has the key of the instance. path has the tools. The output of the tools goes to the log. An error means that there
// is no result.
func (b Build) Run(ctx context.Context, files Files, instance, above, path string) error {
	if err := files.check(); err != nil {
		return err
	}
	err := files.order(&b)
	if err == nil {
		err = checkVersion(b.Version)
	}
	key := b.Order.Key()
	if err == nil && paths.EnvironmentInstance(key) != instance {
		err = fmt.Errorf("the order is that of the environment %s: it cannot be %s", key, instance)
	}
	dir := filepath.Join(above, key)
	built := Built{Version: Version}
	if err == nil {
		err = b.build(ctx, dir, path, files[paths.OutputFile])
		built.Bytes = disk.Taken(context.WithoutCancel(ctx), []string{dir}, math.MaxInt64)
		if err == nil && built.Bytes > b.Bytes {
			err = errors.Join(b.tooLarge(), environment.Discard(dir))
		}
	}
	built.Failure = failure(err, Failed)
	return files.report(&built)
}

// errTooLarge is why a build was ended.
var errTooLarge = errors.New("too large")

// build ends the build when its files take more than b.Bytes.
func (b Build) build(ctx context.Context, dir, path string, output *os.File) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if disk.Watch(ctx, []string{dir, os.TempDir()}, b.Bytes, func(int64) {}) {
			cancel(errTooLarge)
		}
	}()
	err := environment.Build(ctx, environment.Host{Path: path}, b.Order, dir, &lastOutput{file: output})
	cancel(nil)
	<-watched
	if err != nil && errors.Is(context.Cause(ctx), errTooLarge) {
		return b.tooLarge()
	}
	return err
}

func (b Build) tooLarge() error {
	return fmt.Errorf("the environment takes more than %d bytes: need fewer packages, or raise max_bytes of [environments] in "+
		"runner.toml", b.Bytes)
}

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
