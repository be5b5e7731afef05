package bed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Packager has the commands of an operator for one format, on a machine without a
// network. now and next are two versions of the package, files of the host.
type Packager struct {
	Now, Next string
	Command   []string // installs the file that follows
	Remove    func(b *Bed)
	Purge     func(b *Bed)
}

// Install also upgrades and downgrades. It returns the output.
func (p Packager) Install(b *Bed, file string) string {
	b.T.Helper()
	return MustPrint(b, append(p.Command, CopyPackage(b, file))...)
}

// AptGet has no next package.
func AptGet() Packager { return AptGetOf("codex-proxy", os.Getenv("CODEX_PROXY_TEST_DEB")) }

// AptGetOf is AptGet for the package with that name in that file.
func AptGetOf(name, file string) Packager {
	apt := func(words ...string) []string {
		return append([]string{"apt-get", "--yes", "--allow-downgrades", "--reinstall",
			"--option=APT::Sandbox::User=root",
			"--option=Dpkg::Use-Pty=0", "--option=Dpkg::Options::=--force-confold"}, words...)
	}
	return Packager{
		Now: file, Command: apt("install"),
		Remove: func(b *Bed) { MustPrint(b, apt("remove", name)...) },
		Purge:  func(b *Bed) { MustPrint(b, apt("purge", name)...) },
	}
}

// Deb is apt. Its next package has another shipped config.toml, too.
func Deb(t *testing.T) Packager { return WithNext(t, AptGet(), "etc/codex-proxy/config.toml") }

// WithNext adds a next package with another text of the settings.
func WithNext(t *testing.T, p Packager, settings string) Packager {
	p.Next = NextDeb(t, p.Now, settings)
	return p
}

// NextDeb makes the file of a next package, with another text of the settings unless they are "". Nothing in it is
// compressed, which would take longer than all else.
func NextDeb(t *testing.T, now, settings string) (next string) {
	t.Helper()
	dir := t.TempDir()
	next = filepath.Join(dir, "next.deb")
	out, err := exec.Command("sh", "-ec", `dpkg-deb --raw-extract "$1" "$2/tree"; cd "$2/tree"
		sed -i 's/^Version: .*/Version: 9.0-1/' DEBIAN/control
		test -z "$4" || echo '# new' >>"$4"
		dpkg-deb --build --root-owner-group -Znone . "$3"`, "sh", now, dir, next, settings).CombinedOutput()
	require.NoError(t, err, string(out))
	return next
}

// RpmCommand has no next package. It is rpm(8): the dependencies are Debian's packages,
// which rpm does not know. The purge deletes the files that rpm leaves of an edited
// configuration and of state.
func RpmCommand() Packager {
	return RpmOf("codex-proxy", os.Getenv("CODEX_PROXY_TEST_RPM"), "/etc/codex-proxy", "/var/lib/codex-proxy",
		"/var/lib/codex-worker", "/var/lib/private/codex-worker", "/var/lib/codex-dependency",
		"/var/lib/private/codex-dependency", "/var/lib/codex-remote", "/var/lib/private/codex-remote",
		"/run/codex-proxy", "/run/codex-worker", "/run/codex-dependency", "/run/codex-remote",
		"/run/codex-logins", "/var/lib/codex-login", "/var/lib/private/codex-login", "/run/codex-login", "/run/codex-login-own",
		"/run/codex-hands", "/run/codex-hands-own", "/var/lib/codex-hands", "/var/lib/private/codex-hands")
}

// RpmOf is RpmCommand for the package with that name in that file, which leaves data there.
func RpmOf(name, file string, data ...string) Packager {
	remove := func(b *Bed) { MustPrint(b, "rpm", "--erase", name) }
	return Packager{
		Now:     file,
		Command: []string{"rpm", "--upgrade", "--oldpackage", "--replacepkgs", "--nodeps"},
		Remove:  remove,
		Purge: func(b *Bed) {
			remove(b)
			b.MustRun(b.T, append([]string{"rm", "-rf"}, data...)...)
		},
	}
}

// InstallInImage installs into a root without systemd and without /proc, as builders of
// images do.
func InstallInImage(b *Bed, p Packager) string {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-ec", `mkdir /mnt/image; mount --bind / /mnt/image; mount -t tmpfs none /mnt/image/run
		mount --rbind /dev /mnt/image/dev`)
	output := MustPrint(b, append(append([]string{"chroot", "/mnt/image"}, p.Command...), CopyPackage(b, p.Now))...)
	b.MustRun(b.T, "sh", "-ec", "umount --recursive --lazy /mnt/image; rmdir /mnt/image")
	return output
}

// CopyPackage is the path of a host's file in the machine.
func CopyPackage(b *Bed, file string) string {
	b.T.Helper()
	path := "/var/cache/packages/" + filepath.Base(file)
	require.NoError(b.T, b.CopyIn(file, path))
	return path
}
