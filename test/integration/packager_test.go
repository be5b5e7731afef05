package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packager has the commands of an operator for one format, on a machine without a
// network. now and next are two versions of the package, files of the host.
type packager struct {
	now, next string
	command   []string // installs the file that follows
	remove    func(b *bed)
	purge     func(b *bed)
}

// install also upgrades and downgrades. It returns the output.
func (p packager) install(b *bed, file string) string {
	b.t.Helper()
	return b.mustPrint(append(p.command, b.copied(file))...)
}

// aptGet has no next package.
func aptGet() packager { return aptGetOf("codex-proxy", os.Getenv("CODEX_PROXY_TEST_DEB")) }

// aptGetOf is aptGet for the package with that name in that file.
func aptGetOf(name, file string) packager {
	apt := func(words ...string) []string {
		return append([]string{"apt-get", "--yes", "--allow-downgrades", "--reinstall",
			"--option=APT::Sandbox::User=root",
			"--option=Dpkg::Use-Pty=0", "--option=Dpkg::Options::=--force-confold"}, words...)
	}
	return packager{
		now: file, command: apt("install"),
		remove: func(b *bed) { b.mustPrint(apt("remove", name)...) },
		purge:  func(b *bed) { b.mustPrint(apt("purge", name)...) },
	}
}

// deb is apt. Its next package has another shipped config.toml, too.
func deb(t *testing.T) packager { return withNext(t, aptGet(), "etc/codex-proxy/config.toml") }

// withNext adds a next package with another text of the settings.
func withNext(t *testing.T, p packager, settings string) packager {
	dir := t.TempDir()
	p.next = filepath.Join(dir, "next.deb")
	out, err := exec.Command("sh", "-ec", `dpkg-deb --raw-extract "$1" "$2/tree"; cd "$2/tree"
		sed -i 's/^Version: .*/Version: 9.0-1/' DEBIAN/control
		echo '# new' >>"$4"
		dpkg-deb --build --root-owner-group -Zgzip -z1 . "$3"`, "sh", p.now, dir, p.next, settings).CombinedOutput()
	require.NoError(t, err, string(out))
	return p
}

// rpmCommand has no next package. It is rpm(8): the dependencies are Debian's packages,
// which rpm does not know. The purge deletes the files that rpm leaves of an edited
// configuration and of state.
func rpmCommand() packager {
	return rpmOf("codex-proxy", os.Getenv("CODEX_PROXY_TEST_RPM"), "/etc/codex-proxy", "/var/lib/codex-proxy",
		"/var/lib/codex-worker", "/var/lib/private/codex-worker", "/var/lib/codex-dependency",
		"/var/lib/private/codex-dependency", "/var/lib/codex-remote", "/var/lib/private/codex-remote",
		"/run/codex-proxy", "/run/codex-worker", "/run/codex-dependency", "/run/codex-remote",
		"/run/codex-logins")
}

// rpmOf is rpmCommand for the package with that name in that file, which leaves data there.
func rpmOf(name, file string, data ...string) packager {
	remove := func(b *bed) { b.mustPrint("rpm", "--erase", name) }
	return packager{
		now:     file,
		command: []string{"rpm", "--upgrade", "--oldpackage", "--replacepkgs", "--nodeps"},
		remove:  remove,
		purge: func(b *bed) {
			remove(b)
			b.MustRun(b.t, append([]string{"rm", "-rf"}, data...)...)
		},
	}
}

// rpm is rpm(8), with a next package.
func rpm(t *testing.T) packager {
	p := rpmCommand()
	require.NotEmpty(t, p.now, "CODEX_PROXY_TEST_RPM is not set; `make test` sets it")
	p.next = regexp.MustCompile(`-[0-9.]+-1\.`).ReplaceAllString(p.now, "-9.0-1.")
	top, err := filepath.Abs("../..")
	require.NoError(t, err)
	file, err := filepath.Rel(top, p.next)
	require.NoError(t, err)
	build := exec.Command("make", "--no-print-directory", "--silent", file, "VERSION=9.0")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "MAKEFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	version, err := exec.Command("../../build/codex-proxy", "version").Output()
	require.NoError(t, err)
	require.Equal(t, "codex-proxy 9.0\n", string(version), "the program that is packed")
	return p
}

// installInImage installs into a root without systemd and without /proc, as builders of
// images do.
func (b *bed) installInImage(p packager) string {
	b.t.Helper()
	b.MustRun(b.t, "sh", "-ec", `mkdir /mnt/image; mount --bind / /mnt/image; mount -t tmpfs none /mnt/image/run
		mount --rbind /dev /mnt/image/dev`)
	output := b.mustPrint(append(append([]string{"chroot", "/mnt/image"}, p.command...), b.copied(p.now))...)
	b.MustRun(b.t, "sh", "-ec", "umount --recursive --lazy /mnt/image; rmdir /mnt/image")
	return output
}

// copied is the path of a host's file in the machine.
func (b *bed) copied(file string) string {
	b.t.Helper()
	path := "/var/cache/packages/" + filepath.Base(file)
	require.NoError(b.t, b.CopyIn(file, path))
	return path
}

// mustPrint is MustRun with stderr.
func (b *bed) mustPrint(args ...string) string {
	b.t.Helper()
	stdout, stderr, err := b.Run(b.t.Context(), args...)
	require.NoError(b.t, err, stdout+stderr)
	return stdout + stderr
}

// kept are the files that package managers and sysusers keep for themselves, and
// directories of the distribution that an .rpm may make but does not own.
var kept = regexp.MustCompile(`^/(var/(cache|log|lib/(dpkg|apt|rpm))/|var/lib/rpm$|etc/((passwd|group|shadow|gshadow)-$|\.pwd\.lock$|\.updated$))` +
	`|^/usr/share/(man/man[158]|licenses|zsh/site-functions|fish(/vendor_completions\.d)?)$|^/root/|^/tmp/`)

// files lists the machine's files outside of pseudo file systems.
func (b *bed) files() []string {
	b.t.Helper()
	out := b.find("/", "-xdev") + b.find("/run", "-path", "*codex*")
	return slices.DeleteFunc(strings.Split(trim(out), "\n"), kept.MatchString)
}

// find lists files with find(1), which complains of those that vanish while it looks.
func (b *bed) find(args ...string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	out, complaints, err := b.Run(ctx, append([]string{"find"}, args...)...)
	require.True(b.t, err == nil || complaints != "", "%v", err)
	for line := range strings.Lines(complaints) {
		require.Contains(b.t, line, ": No such file or directory\n")
	}
	return out
}

// left lists the files that were not there before.
func (b *bed) left(before []string) []string {
	b.t.Helper()
	return slices.DeleteFunc(b.files(), func(file string) bool { return slices.Contains(before, file) })
}
