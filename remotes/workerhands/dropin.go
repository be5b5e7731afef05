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
// dir, systemd's directory of generated units. A file with a fault has none, unless the worker runs with hands:
// worker-prepare reports the fault.
func Generate(settings, dir string) error { return generate(settings, dir, paths.OwnHandsSockets) }

func generate(settings, dir, sockets string) error {
	return files.Generate(settings, func(file string) error {
		name, repo := strings.TrimSuffix(filepath.Base(file), ".toml"), ""
		switch w, err := codexhome.Load(file); {
		case err == nil && w.Hands != nil:
			repo = w.Hands.RepoDirectory()
		case err == nil, !exists(filepath.Join(sockets, filepath.Base(paths.OwnHandsSocket(name)))):
			return nil
		}
		if err := writeDropIn(dir, units.Worker(name), workerDropIn(file, name, repo)); err != nil {
			return err
		}
		return writeDropIn(dir, units.Hands(name), handsDropIn(file, name, repo))
	})
}

// exists reports whether a socket is open. The units of a codex that runs with hands go on at a daemon-reload, also
// when its file has got a fault: without drop-ins systemd would stop them.
func exists(socket string) bool {
	_, err := os.Lstat(socket)
	return err == nil
}

func writeDropIn(dir, unit, text string) error {
	dir = filepath.Join(dir, unit+".d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, dropIn), []byte(text), 0o644)
}

// workerDropIn leads codex to its hands, which have no other way to it.
func workerDropIn(file, name, repo string) string {
	var b unitfile.Lines
	b.Add("# Made of %s at a daemon-reload: edit that file.", file)
	b.Add("[Unit]\nRequires=%[1]s\nWants=%[2]s\nAfter=%[1]s %[2]s", units.HandsSocket(name), units.Hands(name))
	socket := paths.WorkerRuntimeDirs + "/" + name + "/hands.sock"
	// -: as for the socket of the broker.
	b.Add("[Service]\nBindReadOnlyPaths=-%s:%s", paths.OwnHandsSocket(name), socket)
	b.Add("Environment=%s=%s", shim.HandsVariable, socket)
	b.Add("InaccessiblePaths=-/run/codex-runner")
	if repo != "" { // also where every user may read it
		b.Add("InaccessiblePaths=%s", unitfile.Path("-"+repo))
	}
	return b.String()
}

// handsDropIn has the unit ask codex-runner for sessions, and shows it the repository.
func handsDropIn(file, name, repo string) string {
	var b unitfile.Lines
	b.Add("# Made of %s at a daemon-reload: edit that file.", file)
	b.Add("[Unit]\nWants=codex-runner.socket\nAfter=codex-runner.socket")
	b.Add("[Service]\nUser=%s", units.HandsUser(name))
	b.Add("SupplementaryGroups=%s", handstable.Group)
	if settingsfile.InHome(repo) {
		b.Add("BindReadOnlyPaths=%s", unitfile.Path("-"+repo))
	}
	return b.String()
}
