package machine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"codex-proxy/test/machine/inside"

	"golang.org/x/sys/unix"
)

//go:embed disk.sh
var diskScript string

// makeDisk writes the ext4 file system of an emulated machine to scratch/disk.
func makeDisk(ctx context.Context, lower, scratch string, e Emulation) (string, error) {
	files, disk := filepath.Join(scratch, "files"), filepath.Join(scratch, "disk")
	if err := e.stage(files, filepath.Join(scratch, "packages")); err != nil {
		return "", err
	}
	args := []string{"-c", diskScript, "disk.sh", lower, scratch, disk}
	for _, b := range e.Binds {
		source, err := filepath.EvalSymlinks(b.Source)
		if err != nil {
			return "", err
		}
		args = append(args, source, b.Target)
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Env = []string{inside.Path, "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot make the disk: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return disk, nil
}

// stage lays out what disk.sh copies.
func (e Emulation) stage(files, packages string) error {
	errs := []error{os.MkdirAll(packages, 0o755), os.MkdirAll(files, 0o755)}
	for _, deb := range e.Packages {
		errs = append(errs, os.Symlink(deb, filepath.Join(packages, filepath.Base(deb))))
	}
	for _, f := range append(e.preset(), e.Files...) {
		f.Path = filepath.Join(files, f.Path)
		errs = append(errs, f.Write())
	}
	for _, unit := range inside.Masked {
		place := filepath.Join(files, "/etc/systemd/system", unit)
		errs = append(errs, inside.Link{Path: place, Target: "/dev/null"}.Make())
	}
	wants := filepath.Join(files, "/etc/systemd/system/multi-user.target.wants", emulationUnit)
	return errors.Join(append(errs, inside.Link{Path: wants, Target: "../" + emulationUnit}.Make())...)
}
