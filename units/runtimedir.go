package units

import "os"

// workerDirs holds the runtime directories of workers: RuntimeDirectory= of
// codex-worker@.service. Every user may look up a name in it.
const workerDirs = "/run/codex-worker/"

// WorkerRuns reports, without a question to systemd, whether the worker called name
// starts, runs or stops: systemd makes a unit's runtime directory before its first
// process and removes it after the last one, also during the wait for a restart
// (RuntimeDirectoryPreserve=, systemd.exec(5)).
func WorkerRuns(name string) bool { return runs(workerDirs, name) }

func runs(dirs, name string) bool {
	info, err := os.Lstat(dirs + name)
	return err == nil && info.IsDir()
}
