package workerhands

import (
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/internal/handstable"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/shim"
)

// files are the files of workers.
var files = settingsfile.Kind{Many: "accounts", Valid: units.ValidName}

// dropIn is the name of a drop-in, of the worker's unit and of the one of its hands.
const dropIn = "zz-hands.conf"

// Generate writes, for each worker of the directory settings that has hands, the drop-ins of its unit and of theirs into
// dir, systemd's directory of generated units. A file with a fault has none: worker-prepare reports the fault.
func Generate(settings, dir string) error {
	return files.Generate(settings, func(file string) error {
		w, err := codexhome.Load(file)
		if err != nil || w.Hands == nil {
			return nil
		}
		name := strings.TrimSuffix(filepath.Base(file), ".toml")
		if err := write(dir, units.Worker(name), workerDropIn(w, name)); err != nil {
			return err
		}
		return write(dir, units.Hands(name), handsDropIn(w, name))
	})
}

func write(dir, unit, text string) error {
	dir = filepath.Join(dir, unit+".d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, dropIn), []byte(text), 0o644)
}

// workerDropIn leads codex to its hands, which have no other way to it.
func workerDropIn(w *codexhome.Worker, name string) string {
	var b unitfile.Lines
	b.Add("# Made of %s at a daemon-reload: edit that file.", w.File)
	b.Add("[Unit]\nRequires=%[1]s\nWants=%[2]s\nAfter=%[1]s %[2]s", units.HandsSocket(name), units.Hands(name))
	socket := paths.WorkerRuntimeDirs + "/" + name + "/hands.sock"
	// -: as for the socket of the broker.
	b.Add("[Service]\nBindReadOnlyPaths=-%s:%s", paths.OwnHandsSocket(name), socket)
	b.Add("Environment=%s=%s", shim.HandsVariable, socket)
	b.Add("InaccessiblePaths=-/run/codex-runner")
	if dir := w.Hands.RepoDirectory(); dir != "" { // also where every user may read it
		b.Add("InaccessiblePaths=%s", unitfile.Path("-"+dir))
	}
	return b.String()
}

// handsDropIn has the unit ask codex-runner for sessions, and shows it the repository.
func handsDropIn(w *codexhome.Worker, name string) string {
	var b unitfile.Lines
	b.Add("# Made of %s at a daemon-reload: edit that file.", w.File)
	b.Add("[Unit]\nWants=codex-runner.socket\nAfter=codex-runner.socket")
	b.Add("[Service]\nUser=%s", units.HandsUser(name))
	b.Add("SupplementaryGroups=%s", handstable.Group)
	if dir := w.Hands.RepoDirectory(); settingsfile.InHome(dir) {
		b.Add("BindReadOnlyPaths=%s", unitfile.Path("-"+dir))
	}
	return b.String()
}
