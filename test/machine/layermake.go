package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"codex-proxy/test/machine/inside"

	"golang.org/x/sys/unix"
)

// The directory of a layer has the files, which come last, and the links that enable its units.
func layerFiles(dir string) string { return filepath.Join(dir, "files") }
func layerLinks(dir string) string { return filepath.Join(dir, "links") }

// addLayer puts the layer on top of l.
func addLayer(l *inside.Layout, dir string) error {
	text, err := os.ReadFile(layerLinks(dir))
	if err != nil {
		return err
	}
	l.Layers = append([]string{layerFiles(dir)}, l.Layers...)
	l.Hide = nil // they are empty in the layer, but for the files of the packages
	return json.Unmarshal(text, &l.Late)
}

// makeLayer makes dir of what a machine has written to its disk when the packages are installed.
func makeLayer(ctx context.Context, i installed, dir string) (err error) {
	l, err := i.root.layout(ctx)
	if err != nil {
		return err
	}
	if len(l.Submounts) > 0 {
		return errors.New("its files are on several file systems")
	}
	disk := filepath.Join(dir, "disk")
	if err := errors.Join(os.RemoveAll(disk), os.Mkdir(disk, 0o700)); err != nil { // of a maker that was killed
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(disk)) }()
	if err := i.install(ctx, disk); err != nil {
		return err
	}
	files := inside.UpperDir(disk, 0)
	if err := uncover(l.Hide, disk, files); err != nil {
		return err
	}
	if err := takeLinks(files, layerLinks(dir)); err != nil {
		return err
	}
	return os.Rename(files, layerFiles(dir))
}

// install boots a machine with that disk and installs the packages there.
func (i installed) install(ctx context.Context, disk string) (err error) {
	m, err := Start(ctx, i.root, Options{Disk: disk})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for _, deb := range i.debs {
		if out, err := m.InstallDeb(ctx, deb); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	_, _, err = m.Run(ctx, "sh", "-c", "rm -rf "+debsDir+" /var/tmp/*") // large, and the private ones of running units
	return err
}

// uncover gives the hidden directories of the root, which were mounted, their places in the layer, where overlayfs
// shows nothing of the root in them.
func uncover(hidden []string, disk, files string) error {
	for n, dir := range hidden {
		mounted, place := inside.EmptyDir(disk, n), filepath.Join(files, dir)
		if !isDir(mounted) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return err
		}
		if err := os.Remove(place); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Rename(mounted, place); err != nil {
			return err
		}
		if err := unix.Setxattr(place, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			return fmt.Errorf("cannot make %s opaque: %w", place, err)
		}
	}
	return nil
}

// takeLinks moves the links by which units would start at boot from the layer to a file.
func takeLinks(files, to string) error {
	links := []inside.Link{}
	for _, kind := range []string{"wants", "requires"} {
		found, err := filepath.Glob(filepath.Join(files, "etc/systemd/system/*."+kind, "*"))
		if err != nil {
			return err
		}
		for _, path := range found {
			target, err := os.Readlink(path)
			if err != nil { // it hides one of the root
				continue
			}
			links = append(links, inside.Link{Path: path[len(files):], Target: target})
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	text, err := json.Marshal(links)
	return errors.Join(err, os.WriteFile(to, text, 0o644))
}
