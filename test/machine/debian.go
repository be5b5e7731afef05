package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"codex-proxy/test/machine/inside"

	"golang.org/x/sys/unix"
)

// makeTimeout bounds the making of a root, lockTimeout the wait for another process
// that makes it.
const (
	makeTimeout = 10 * time.Minute
	lockTimeout = makeTimeout + time.Minute
)

// Debian is a minimal Debian with systemd, D-Bus, polkit, curl, rpm, our package's
// dependencies, and bubblewrap, which many machines have and codex then takes; suite is its code name ("trixie", "bookworm"). mmdebstrap(1) makes it
// once, in the user's cache directory. It also has the named packages of Debian, whose
// units do not start by themselves.
func Debian(suite string, packages ...string) Root { return debian{suite, packages} }

type debian struct {
	suite    string
	packages []string
}

func (d debian) layout(ctx context.Context) (inside.Layout, error) {
	dir, err := d.cached(ctx)
	if err != nil {
		return inside.Layout{}, fmt.Errorf("%w: cannot make the Debian %s root: %w", ErrUnable, d.suite, err)
	}
	return inside.Layout{Lower: dir, Target: "multi-user.target", Hide: generators, Preset: preset()}, nil
}

// recipe is the arguments of mmdebstrap; their hash names the cached root.
func (d debian) recipe() []string {
	recipe := []string{
		"--variant=minbase",
		"--include=systemd,systemd-sysv,dbus,polkitd,ca-certificates,curl,procps,rpm,bubblewrap",
		`--aptopt=APT::Install-Recommends "false"`,
		`--aptopt=Acquire::Languages "none"`,
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--format=directory",
	}
	if len(d.packages) > 0 {
		recipe = append(recipe, "--include="+strings.Join(d.packages, ","),
			`--customize-hook=find "$1"/etc/systemd/system -path '*.wants/*' -delete`)
	}
	if slices.Contains(d.packages, "default-jdk-headless") { // its alternatives have links there
		recipe = append(recipe, `--essential-hook=mkdir -p "$1"/usr/share/man/man1`)
	}
	return append(recipe, d.suite)
}

func (d debian) cached(ctx context.Context) (string, error) {
	return cached(ctx, d.suite, d.recipe())
}

// cached returns the directory that mmdebstrap makes by a recipe, and makes it if it
// does not exist. Under the lock one process makes it while the others wait; because of
// the rename at the end a directory of that name is complete.
func cached(ctx context.Context, name string, recipe []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w (set HOME or XDG_CACHE_HOME)", err)
	}
	sum := sha256.Sum256([]byte(strings.Join(recipe, "\x00")))
	dir := filepath.Join(cache, "codex-proxy", "roots", name+"-"+hex.EncodeToString(sum[:6]))
	if isDir(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(dir) {
		return dir, nil
	}
	return dir, makeRoot(ctx, recipe, dir)
}

func makeRoot(ctx context.Context, recipe []string, dir string) error {
	half := dir + ".half"
	if err := os.RemoveAll(half); err != nil { // of a maker that was killed
		return err
	}
	if err := mmdebstrap(ctx, recipe, half); err != nil {
		return errors.Join(err, os.RemoveAll(half))
	}
	return os.Rename(half, dir)
}

// mmdebstrap runs in mount and PID namespaces of its own: after any end, none of its
// mounts and processes stays.
func mmdebstrap(ctx context.Context, recipe []string, dir string) error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return errors.New("mmdebstrap is not installed (hint: apt install mmdebstrap)")
	}
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	args := append([]string{"--mode=root", "--quiet"}, recipe...)
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, dir)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID,
		Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = time.Second
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// lockFile takes an exclusive flock on path, which it makes.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil { // a blocking flock can't be bounded
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another process is making the root: %w", ctx.Err()), f.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return func() { _ = f.Close() }, nil
}
