package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"codex-proxy/notify"
	"codex-proxy/runner/paths"
)

// Job prepares the start of the unit of a job. It opens the files of the job in the directory path of the daemon's
// state and passes them to the main process through systemd. The output and the result of an earlier job are removed.
func (h Host) Job(ctx context.Context, path string, notifier *notify.Notifier) error {
	state, err := openDir(h.StateDir)
	if err != nil {
		return fmt.Errorf("cannot open the state of the daemon: %w", err)
	}
	defer state.Close()
	daemon, err := ownerOf(state.File)
	if err != nil {
		return err
	}
	job, err := state.sub(path)
	if err != nil {
		return fmt.Errorf("cannot find the job: %w", err)
	}
	defer job.Close()
	files := inheritance{}
	defer files.close()
	if files[paths.OrderFile], err = job.open(paths.Order); err != nil {
		return fmt.Errorf("cannot find the order: %w", err)
	}
	if files[paths.BundleFile], err = job.open(paths.Bundle); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot open the bundle: %w", err)
	}
	for name, file := range map[string]string{paths.OutputFile: paths.Output, paths.ResultFile: paths.Result} {
		err := job.remove(file)
		if err == nil {
			files[name], err = job.create(file, daemon)
		}
		if err != nil {
			return fmt.Errorf("cannot make a file of the job: %w", err)
		}
	}
	return files.pass(ctx, notifier)
}
