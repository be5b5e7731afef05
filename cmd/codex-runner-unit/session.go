package main

import (
	"context"
	"fmt"
	"os"

	"codex-proxy/notify"
	"codex-proxy/runner/disk"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/prepare"
)

// sessionPrepare opens the files of the next command of a session, passes them to session-exec through systemd, and
// gives the session its workspace and its secrets. It is ExecStartPre of codex-session@ID.service and runs as root: the
// files belong to codex-runner.service, and the sandbox of the session has no path to them.
func sessionPrepare(ctx context.Context, id string, notifier *notify.Notifier) error {
	return prepare.Installed().Prepare(ctx, id, notifier)
}

// sessionExec makes the workspace, waits for the environment, runs the command that session-prepare has passed on,
// writes its output to the log of the session, ends it at its limits or when it is cancelled, and writes down how it
// ended. It is the main process of codex-session@ID.service. There is no error if the result is written, even of a
// failed command.
func sessionExec(ctx context.Context, _ string, notifier *notify.Notifier) error {
	score, err := exec.Hide()
	if err != nil {
		return err
	}
	defer score.Close()
	files, err := notify.InheritedFiles()
	if err != nil {
		return err
	}
	ctx, stop, err := exec.Terminated(ctx)
	if err != nil {
		return err
	}
	defer stop()
	shim := exec.Shim{
		Files: files, Notifier: notifier, Score: score, Workspace: paths.Workspace, Journal: os.Stderr,
		Disk:        bounded(files),
		Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Environ: os.Environ(),
		Preparations: []exec.Preparation{
			exec.Workspace{
				Repository: paths.Repository, Record: files[paths.RecordFile],
				Previous: files[paths.PreviousFile], Snapshot: files[paths.SnapshotFile],
			},
			exec.Patch{File: files[paths.PatchFile]},
			exec.Settle{Tenant: files[paths.TenantFile]},
			exec.Environment{Dir: paths.Environments},
		},
		Toolchains: paths.Toolchains,
		Dirty:      exec.Dirty,
		KillRest:   exec.KillRest,
	}
	return shim.Run(ctx)
}

// bounded are the files of a session. They exclude the snapshot that it began with: the differences from it are
// in directories without a name in the sandbox.
func bounded(inherited map[string]*os.File) disk.Files {
	files := disk.Files{Dirs: []string{os.Getenv("STATE_DIRECTORY"), "/tmp", "/var/tmp"}}
	for name, path := range map[string]string{paths.ChangesFile: paths.Workspace, paths.HomeFile: paths.Home} {
		if changes := inherited[name]; changes != nil {
			files.Dirs = append(files.Dirs, fmt.Sprintf("/proc/self/fd/%d", changes.Fd()))
			files.Merged = append(files.Merged, path)
		} else {
			files.Dirs = append(files.Dirs, path)
		}
	}
	return files
}

// sessionEnded records how the unit of a session has ended, from the variables of systemd and the counters of its
// cgroup, and removes the files made by the start. It is ExecStopPost of codex-session@ID.service and runs as root,
// after any end: no process of the session is left then.
func sessionEnded(_ context.Context, id string, _ *notify.Notifier) error {
	return prepare.Installed().End(id, os.Getenv)
}
