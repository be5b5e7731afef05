package remote

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/units"
)

// Generate writes the drop-ins into dir, systemd's directory of generated units, for each valid file of the directory
// settings. A file with a fault has none: remote-exec reports the fault. The error joins all faults.
func Generate(settings, dir string) error {
	names, err := Names(settings)
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, generate(filepath.Join(settings, name+".toml"), dir))
	}
	return errors.Join(errs...)
}

func generate(file, dir string) error {
	s, err := Load(file)
	if err != nil {
		return err
	}
	if p := s.Provider; p != nil && missing(p.KeyFile) {
		p.KeyFile = "" // with it systemd could start nothing, not even what names the fault
	}
	errs := []error{write(filepath.Join(dir, units.Remote(s.Name)+".d"), s.ServiceDropIn()),
		write(filepath.Join(dir, units.RemoteSocket(s.Name)+".d"), s.SocketDropIn())}
	if len(s.Notify) > 0 {
		errs = append(errs, write(filepath.Join(dir, units.RemoteNotify(s.Name)+".d"), s.NotifyDropIn()),
			write(filepath.Join(dir, units.RemoteNotifySocket(s.Name)+".d"), s.NotifySocketDropIn()))
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

func write(dir string, text []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "50-settings.conf"), text, 0o644)
}
