package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Spec is a machine. The new process gets it as JSON.
type Spec struct {
	Layout
	Options
}

// Layout is the files of a root and the parameters of its boot.
type Layout struct {
	Lower     string   // read-only directory, the bottom of the overlay
	Layers    []string // those above it, the top first
	Submounts []string // file systems below Lower that the overlay does not show by itself
	Target    string   // unit that systemd starts
	Hide      []string // directories that the machine sees as empty
	Preset    []File   // files written first
	Links     []Link   // symlinks made after Preset
	Late      []Link   // symlinks made after the first boot
}

// Link is a symbolic link of the machine.
type Link struct{ Path, Target string }

// New returns the machine of a root with these options.
func New(l Layout, o Options) Spec {
	o.Empty = append(l.Hide, o.Empty...)
	return Spec{Layout: l, Options: o}
}

// Masked units slow a boot down, reach out of the machine or change the
// host's kernel, and no test needs them.
var Masked = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
	"man-db.timer", "motd-news.timer", "systemd-tmpfiles-clean.timer", "logrotate.timer",
	"getty.target", "console-getty.service", "systemd-logind.service",
	"systemd-user-sessions.service", "e2scrub_reap.service",
	"systemd-modules-load.service", "systemd-sysctl.service", "systemd-binfmt.service", "systemd-pstore.service",
	"systemd-firstboot.service", "systemd-machine-id-commit.service", "systemd-random-seed.service",
	"systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "systemd-update-done.service",
	"systemd-hwdb-update.service", "systemd-journal-catalog-update.service",
	"systemd-journal-flush.service", "ldconfig.service",
	"systemd-timesyncd.service", "systemd-networkd.service", "systemd-networkd.socket", "systemd-resolved.service",
	"systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udevd-control.socket",
	"systemd-udevd-kernel.socket",
	"systemd-journald-audit.socket", "systemd-remount-fs.service", "systemd-tpm2-setup-early.service",
	"systemd-tpm2-setup.service", "systemd-tmpfiles-setup-dev-early.service", "systemd-tmpfiles-setup-dev.service",
	"dev-hugepages.mount", "dev-mqueue.mount", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
	"sys-kernel-debug.mount", "sys-kernel-tracing.mount", "proc-sys-fs-binfmt_misc.automount",
	"kmod-static-nodes.service", "modprobe@.service", "remote-fs.target", "apparmor.service", "nftables.service",
}

// writeAll writes the files and links of layout and options into the root.
func (s Spec) writeAll() error {
	var errs []error
	for _, f := range append(s.Preset, s.Files...) {
		errs = append(errs, f.Write())
	}
	for _, l := range s.Links {
		errs = append(errs, l.Make())
	}
	for _, unit := range Masked {
		errs = append(errs, Link{"/etc/systemd/system/" + unit, "/dev/null"}.Make())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot write the machine's files: %w", err)
	}
	return nil
}

// Write replaces the file, and a symlink in its place too.
func (f File) Write() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	mode := f.Mode
	if mode == 0 {
		mode = 0o644
	}
	if err := os.WriteFile(f.Path, f.Data, mode); err != nil {
		return err
	}
	return os.Chmod(f.Path, mode)
}

// Make replaces the link.
func (l Link) Make() error {
	if err := os.MkdirAll(filepath.Dir(l.Path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(l.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(l.Target, l.Path)
}
