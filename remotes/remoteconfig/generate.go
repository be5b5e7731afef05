package remoteconfig

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/internal/settingsfile"
	"codex-proxy/units"
)

// Generate writes the drop-ins into dir, systemd's directory of generated units, for each valid file of the directory
// settings. A file with a fault has none: remote-exec reports the fault. The error joins all faults.
func Generate(settings, dir string) error {
	return files.Generate(settings, func(file string) error { return generate(file, dir) })
}

func generate(file, dir string) error {
	s, err := Load(file)
	if err != nil {
		return err
	}
	s.noInput = s.Provider != nil && missing(s.Provider.KeyFile) || TokenIsInput(s) && missing(s.Hands.TokenFile)
	errs := []error{settingsfile.WriteDropIn(dir, units.Remote(s.Name), s.ServiceDropIn()),
		settingsfile.WriteDropIn(dir, units.RemoteSocket(s.Name), s.SocketDropIn())}
	if len(s.Notify) > 0 {
		errs = append(errs, settingsfile.WriteDropIn(dir, units.RemoteNotify(s.Name), s.NotifyDropIn()),
			settingsfile.WriteDropIn(dir, units.RemoteNotifySocket(s.Name), s.NotifySocketDropIn()))
	}
	return errors.Join(errs...)
}

// missing reports that there is no such file in its directory, which may be mounted later.
func missing(path string) bool {
	if _, err := os.Stat(filepath.Dir(path)); path == "" || err != nil {
		return false
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
