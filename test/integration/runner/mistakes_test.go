package runner

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// mistakes are answered with what is wrong and how to mend it, and start nothing.
func (b *manualBed) mistakes(t *testing.T) {
	other := strings.TrimSpace(b.MustRun(t, "codex-runner", "run", "--keep", "--detach", "true"))
	sessions := func() string {
		_, list, _ := b.alice(t, `codex-runner sessions --json | grep --only-matching '"id":"[a-z2-7]*"'`)
		return list
	}
	before := sessions()
	for _, tc := range []struct {
		line   string
		status int
		want   string
	}{
		{"run --repo app --ref nope -- true", 125, `the repository has no branch, tag or commit "nope": name one that it has`},
		{"run --repo /root -- true", 125, "--repo /root is no git repository that this user can read: name its top directory"},
		{"run --repo /nowhere -- true", 125, "--repo /nowhere is neither a URL nor a directory"},
		{"run --repo http://127.0.0.1:1/a.git -- true", 125, "see that the URL is right, that this host reaches it"},
		{"run --repo file:///home/alice/app -- true", 64, "name the directory: codex-runner run --repo /home/alice/app"},
		{"run --repo app --patch /nowhere -- true", 125, "cannot read the patch: open /nowhere: no such file or directory"},
		{"run --repo app --patch /etc/passwd -- true", 125, "it changes no file: make the patch with `git diff`"},
		{"run --repo app --env perl -- true", 64, `there is no environment "perl": use one of`},
		{"run --timeout 48h -- true", 64, "limits.timeout is out of range: use at most 24h0m0s, or ask an administrator"},
		{"run --grace 1h -- true", 64, "limits.grace is out of range: use at most 1m0s"},
		{"run --output-limit 1T -- true", 64, "limits.output is out of range: use at most 1G"},
		{"run --memory 1 -- true", 64, "limits.memory is out of range: use at least 16M"},
		{"run --memory 2GB -- true", 64, "--memory=2GB: want a positive number of bytes, such as 4096, 512K, 64M or 2G"},
		{"run --dir ../.. -- true", 64, "use a path that begins in the workspace and stays there"},
		{"run --setenv 1=2=3 -- true", 64, `env has the name "1": use letters, digits and _, and no digit first`},
		{"run --secret a/b=/etc/hostname -- true", 64, `secrets has the name "a/b": use up to 64 letters, digits and _`},
		{"run --stdin /nowhere -- true", 125, "cannot read the standard input of the command: open /nowhere"},
		{"run --hold-on-failure 9999h -- true", 64, "hold_on_failure is out of range: use a time up to 24h0m0s"},
		{"run --session " + other + " -- true", 125, "there is no such session of yours as " + other},
		{"run -- ''", 64, "args is empty: name a command"},
		{"show " + other, 1, "`codex-runner sessions` lists yours"},
		{"logs " + other, 1, "there is no such session of yours"},
		{"cancel " + other, 1, "there is no such session of yours"},
		{"release " + other, 1, "there is no such session of yours"},
		{"artifacts " + other, 1, "there is no such session of yours"},
		{"sessions --all", 1, "only administrators see the sessions of all users: leave out all"},
		{"prune --all", 1, "only administrators remove the sessions of all users: leave out all"},
	} {
		status, stdout, stderr := b.alice(t, "codex-runner "+tc.line)
		assert.Equal(t, tc.status, status, "%s: %s", tc.line, stderr)
		assert.Empty(t, stdout, tc.line)
		assert.Contains(t, stderr, tc.want, tc.line)
	}
	assert.Equal(t, before, sessions())
	for line, want := range map[string]string{ // what only the sandbox can tell
		"run -- /etc/passwd": "126 cannot start /etc/passwd: execute /etc/passwd: permission denied (is it a program, and executable?)",
		"run -- /etc":        "126 cannot start /etc: ", "run -- ./nothing": "127 cannot find the program ./nothing",
		"run --dir nothing -- true": "125 there is no directory /workspace/nothing in the workspace",
	} {
		status, _, stderr := b.alice(t, "codex-runner "+line)
		number, text, _ := strings.Cut(want, " ")
		assert.Equal(t, number, strconv.Itoa(status), line)
		assert.Contains(t, stderr, text)
	}
}
