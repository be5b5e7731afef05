package bed

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// UID is the number of the user that a running unit has.
func UID(b *Bed, unit string) string {
	b.T.Helper()
	uid := b.Properties(unit, "UID")["UID"]
	require.Regexp(b.T, `^[1-9][0-9]*$`, uid, unit)
	return uid
}

// Owner is the mode of a file, and its user and group: as names, but as numbers for the
// user of a worker.
func Owner(b *Bed, path string) string {
	b.T.Helper()
	parts := strings.Fields(b.MustRun(b.T, "stat", "--dereference", "--format=%a %U:%G %u:%g", path))
	if strings.HasPrefix(parts[1], "root:") || strings.HasPrefix(parts[1], "codex-") {
		return parts[0] + " " + parts[1]
	}
	return parts[0] + " " + parts[2]
}

// AssertUnseen asserts that a secret is in no place that other users can read.
func AssertUnseen(b *Bed, secret string) {
	b.T.Helper()
	assert.NotContains(b.T, b.Export(), secret)
	assert.NotContains(b.T, b.MustRun(b.T, "systemctl", "show", "--all", "codex-worker@default",
		"codex-worker@second", "codex-proxy"), secret)
	assert.NotContains(b.T, b.MustRun(b.T, "sh", "-c",
		"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"), secret)
	for _, user := range []string{"codex-proxy", "codex-worker"} {
		_, _, err := b.Run(b.T.Context(), "runuser", "-u", user, "--", "cat", "/var/lib/codex-worker/default/auth.json")
		assert.Error(b.T, err, user)
	}
	assert.NotContains(b.T, b.MustRun(b.T, "codex-proxy", "accounts", "list", "--json"), secret)
}

// WriteProgram installs a script.
func WriteProgram(b *Bed, name, text string) {
	b.T.Helper()
	require.NoError(b.T, b.WriteFile("/usr/local/bin/"+name, []byte(text), 0o755))
}

// AppendTo appends a text without quotes to a file of the machine.
func (b *Bed) AppendTo(path, text string) {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-c", "printf %s '"+text+"' >>"+path)
}

// kept are the files that package managers and sysusers keep for themselves, and
// directories of the distribution that an .rpm may make but does not own.
var kept = regexp.MustCompile(`^/(var/(cache|log|lib/(dpkg|apt|rpm))/|var/lib/rpm$|etc/((passwd|group|shadow|gshadow)-$|\.pwd\.lock$|\.updated$))` +
	`|^/usr/share/(man/man[158]|licenses|zsh/site-functions|fish(/vendor_completions\.d)?)$|^/root/|^/tmp/`)

// Files lists the machine's files outside of pseudo file systems.
func Files(b *Bed) []string {
	b.T.Helper()
	out := Find(b, "/", "-xdev") + Find(b, "/run", "-path", "*codex*")
	return slices.DeleteFunc(strings.Split(Trim(out), "\n"), kept.MatchString)
}

// Find lists files with find(1), which complains of those that vanish while it looks.
func Find(b *Bed, args ...string) string {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), Bound)
	defer cancel()
	out, complaints, err := b.Run(ctx, append([]string{"find"}, args...)...)
	require.True(b.T, err == nil || complaints != "", "%v", err)
	for line := range strings.Lines(complaints) {
		require.Contains(b.T, line, ": No such file or directory\n")
	}
	return out
}

// FilesSince lists the files that were not there before.
func FilesSince(b *Bed, before []string) []string {
	b.T.Helper()
	was := map[string]bool{}
	for _, file := range before {
		was[file] = true
	}
	return slices.DeleteFunc(Files(b), func(file string) bool { return was[file] })
}
