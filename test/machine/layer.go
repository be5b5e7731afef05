package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"codex-proxy/test/machine/inside"

	"golang.org/x/sys/unix"
)

// Installed is root with .deb files of the host installed. The installation runs once, in a booted machine; its files
// become a layer in the user's cache directory, which all machines with that root and these packages share. A machine
// is as after the installation, except that no unit of the packages has started. The links by which they start at boot
// are made when the machine has booted; systemd reads them with its next daemon-reload.
func Installed(root Root, debs ...string) Root { return installed{root, debs} }

type installed struct {
	root Root
	debs []string
}

func (i installed) layout(ctx context.Context) (inside.Layout, error) {
	l, err := i.root.layout(ctx)
	if err != nil {
		return inside.Layout{}, err
	}
	dir, err := i.hold(ctx, i.name(filepath.Base(l.Lower)))
	if err == nil {
		err = addLayer(&l, dir)
	}
	if err != nil {
		return inside.Layout{}, fmt.Errorf("cannot make a root with %q: %w", i.debs, err)
	}
	return l, nil
}

// name is that of the root and of the packages: layers of other versions of them are replaced.
func (i installed) name(root string) string {
	for _, deb := range i.debs {
		pack, _, _ := strings.Cut(filepath.Base(deb), "_")
		root += "+" + pack
	}
	return root
}

// layerForm is part of the name of a layer. Change it with the way in which a layer is made.
const layerForm = "1"

// heldLayer is a layer that this process uses. Its lock is held until the process ends: no other removes it.
type heldLayer struct {
	sync.Mutex
	dir  string // empty until it is held
	lock *os.File
}

// heldLayers are by the root and by the files of the packages, as they are on the host: reading all of them for each
// machine would take longer than its boot.
var heldLayers sync.Map

// hold returns the directory of the layer, which is made if there is none.
func (i installed) hold(ctx context.Context, name string) (string, error) {
	key, err := i.key(name)
	if err != nil {
		return "", err
	}
	found, _ := heldLayers.LoadOrStore(key, &heldLayer{})
	h := found.(*heldLayer)
	h.Lock()
	defer h.Unlock()
	if h.dir != "" {
		return h.dir, nil
	}
	dir, err := i.dir(name)
	if err != nil {
		return "", err
	}
	if h.lock, err = i.lock(ctx, dir); err != nil {
		return "", err
	}
	h.dir = dir
	return dir, removeOthers(dir, name)
}

// key changes with the files of the packages.
func (i installed) key(name string) (string, error) {
	key := name
	for _, deb := range i.debs {
		st, err := os.Stat(deb)
		if err != nil {
			return "", err
		}
		key += fmt.Sprintf("\x00%s\x00%d\x00%d", deb, st.Size(), st.ModTime().UnixNano())
	}
	return key, nil
}

// dir adds a hash of the content of the packages to the name.
func (i installed) dir(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w (set HOME or XDG_CACHE_HOME)", err)
	}
	sum := sha256.New()
	_, _ = io.WriteString(sum, layerForm) // never fails
	for _, deb := range i.debs {
		f, err := os.Open(deb)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return filepath.Join(cache, "codex-proxy", "layers", name+"-"+hex.EncodeToString(sum.Sum(nil)[:6])), nil
}

// lock returns a shared lock on the complete layer. A process that makes or removes it has an exclusive one.
func (i installed) lock(ctx context.Context, dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		held, err := i.tryLock(ctx, f, dir)
		if held {
			return f, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process is making the layer: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tryLock reports whether f has the shared lock on dir, and dir is complete. It makes dir if no other process does.
func (i installed) tryLock(ctx context.Context, f *os.File, dir string) (bool, error) {
	if flock(f, unix.LOCK_EX) && isAt(f, dir) && !isDir(layerFiles(dir)) {
		if err := makeLayer(ctx, i, dir); err != nil {
			return false, err
		}
	}
	return flock(f, unix.LOCK_SH) && isAt(f, dir) && isDir(layerFiles(dir)), nil
}

func flock(f *os.File, how int) bool { return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) == nil }

// isAt reports whether path still leads to f: another process may have removed the directory before it was locked.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

// removeOthers removes the layers with the same name and another hash, except those that a process uses.
func removeOthers(dir, name string) error {
	others, err := filepath.Glob(filepath.Join(filepath.Dir(dir), name+"-????????????"))
	for _, other := range others {
		if other != dir {
			err = errors.Join(err, removeUnused(other))
		}
	}
	return err
}

func removeUnused(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) { // another process was faster
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !flock(f, unix.LOCK_EX) {
		return nil
	}
	return os.RemoveAll(dir)
}
