package units

import "os"

// workerDirs is where the runtime directories of workers are: RuntimeDirectory= of
// codex-worker@.service, whose name anybody may look for.
const workerDirs = "/run/codex-worker/"

// WorkerRuns reports, without asking systemd, whether the worker called name starts,
// runs or stops: systemd makes a unit's runtime directory before its first process,
// and removes it after the last one, also while it waits to start it again
// (RuntimeDirectoryPreserve=, systemd.exec(5)).
func WorkerRuns(name string) bool { return runs(workerDirs, name) }

func runs(dirs, name string) bool {
	info, err := os.Lstat(dirs + name)
	return err == nil && info.IsDir()
}
