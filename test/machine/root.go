package machine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/test/machine/inside"
)

// Root is the source of a machine's files: Debian, Host, or Installed on one of them.
type Root interface {
	layout(ctx context.Context) (inside.Layout, error)
}

// generators run before any unit and only add what a machine must not have
// (mounts of fstab, consoles, init scripts).
var generators = []string{"/usr/lib/systemd/system-generators", "/usr/lib/systemd/system-environment-generators",
	"/etc/systemd/system-generators"}

// preset are files that every machine gets.
func preset() []File {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails, crypto/rand
	return []File{
		// An id of its own, or journalctl would show the journal of the root's.
		{Path: "/etc/machine-id", Data: []byte(hex.EncodeToString(id) + "\n"), Mode: 0o444},
		{Path: "/etc/hostname", Data: []byte("machine\n")},
		{Path: "/etc/hosts", Data: hosts()},
		{Path: "/etc/fstab", Data: []byte("\n")},
		{Path: "/etc/systemd/journald.conf.d/90-machine.conf",
			Data: []byte("[Journal]\nStorage=volatile\nReadKMsg=no\nForwardToSyslog=no\n")},
	}
}

// hosts are the host's names and the machine's own, as Debian's installer has it. Without it, a codex before 0.153 asks the
// name server at each start, for 5 s where there is none.
func hosts() []byte {
	names, err := os.ReadFile("/etc/hosts")
	if err != nil {
		names = []byte("127.0.0.1 localhost\n::1 localhost\n")
	}
	return append(names, "\n127.0.1.1 machine\n"...)
}

// Host is a machine over this host's own files: nothing is downloaded, and
// nothing the machine writes reaches them. Units enabled on the host stay
// off; only what systemd itself needs and D-Bus start.
func Host() Root { return host{} }

type host struct{}

const hostTarget = `[Unit]
Description=Machine over the host's files
Requires=basic.target
Wants=dbus.socket
After=basic.target dbus.socket
AllowIsolate=yes
`

func (host) layout(context.Context) (inside.Layout, error) {
	l := inside.Layout{
		Lower: "/", Submounts: hostSubmounts(), Target: "machine.target",
		Hide:   append([]string{"/etc/systemd/system", "/var/log/journal"}, generators...),
		Preset: append(preset(), File{Path: "/etc/systemd/system/machine.target", Data: []byte(hostTarget)}),
	}
	if data, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		l.Preset = append(l.Preset, File{Path: "/etc/resolv.conf", Data: data}) // often a link into the host's /run
	}
	if target, err := os.Readlink("/etc/systemd/system/dbus.service"); err == nil {
		// Which bus the host uses.
		l.Links = append(l.Links, inside.Link{Path: "/etc/systemd/system/dbus.service", Target: target})
	}
	return l, nil
}

// hostSubmounts returns the disk file systems of an ordinary layout that are
// mounted below /: an overlay over / shows empty directories in their place.
func hostSubmounts() []string {
	disk := []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs"}
	tops := []string{"etc", "home", "nix", "opt", "root", "srv", "usr", "var"}
	var list []string
	for _, m := range mounts() {
		top, _, _ := strings.Cut(strings.TrimPrefix(m.point, "/"), "/")
		if m.point != "/" && slices.Contains(disk, m.fstype) && slices.Contains(tops, top) && isDir(m.point) {
			list = append(list, m.point)
		}
	}
	slices.Sort(list) // a parent comes before its children
	return slices.Compact(list)
}

func isDir(path string) bool {
	st, err := os.Stat(filepath.Clean(path))
	return err == nil && st.IsDir()
}
