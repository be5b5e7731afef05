package units

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWorkerUnits(t *testing.T) {
	assert.Equal(t, "codex-worker@a-b_1.service", Worker("a-b_1"))
	assert.Equal(t, "codex-worker@a-b_1.socket", WorkerSocket("a-b_1"))
}

// The unit and its generator make the same names of users as WorkerUser.
func TestWorkerUser(t *testing.T) {
	unit, err := os.ReadFile("../packaging/systemd/codex-worker@.service")
	require.NoError(t, err)
	assert.Contains(t, string(unit), "\nUser="+strings.ReplaceAll(WorkerUser("x"), "x", "%i")+"\n")
	settings, out := t.TempDir(), t.TempDir()
	longest, long, longer := strings.Repeat("x", 28), strings.Repeat("x", 29), strings.Repeat("y", 64)
	for _, name := range []string{"default", longest, long, longer} {
		require.NoError(t, os.WriteFile(filepath.Join(settings, name+".toml"), nil, 0o644))
	}
	script, err := os.ReadFile("../packaging/systemd/codex-worker-users")
	require.NoError(t, err)
	generate := exec.Command("sh", "-euc", strings.ReplaceAll(string(script), "/etc/codex-proxy/workers", settings), "sh", out)
	talk, err := generate.CombinedOutput()
	require.NoError(t, err, string(talk))
	assert.Empty(t, talk)
	dirs, err := os.ReadDir(out)
	require.NoError(t, err)
	assert.Len(t, dirs, 2, "%v", dirs)
	for _, name := range []string{long, longer} {
		dropIn, err := os.ReadFile(filepath.Join(out, Worker(name)+".d", "50-user.conf"))
		require.NoError(t, err)
		assert.Equal(t, "[Service]\nUser="+WorkerUser(name)+"\n", string(dropIn))
		assert.Len(t, WorkerUser(name), 31)
	}
	assert.Equal(t, "cw-"+longest, WorkerUser(longest))
}

func TestValidName(t *testing.T) {
	for _, name := range []string{"default", "A-b_9", "9", strings.Repeat("x", 64)} {
		assert.NoError(t, ValidName(name))
	}
	long := strings.Repeat("x", 65)
	for _, name := range []string{"", "-x", "--help", "_x", "a b", "a/b", "a.b", "é", "a\n", "a@b", long} {
		assert.Error(t, ValidName(name), "%q", name)
	}
	assert.EqualError(t, ValidName("a b"),
		`cannot use "a b" as a worker name: use 1 to 64 letters, digits, _ or -, a letter or digit first`)
}

// The valid names and the polkit rule must agree.
func TestPolkitAdmitsValidNames(t *testing.T) {
	rule, err := os.ReadFile("../packaging/polkit/codex-proxy.rules")
	require.NoError(t, err)
	bounded := func(form fmt.Stringer, longest int) string {
		return strings.ReplaceAll(strings.Trim(form.String(), "^$"), "*", fmt.Sprintf("{0,%d}", longest-1)) + `\.service$/`
	}
	assert.Contains(t, string(rule), "/^codex-worker@"+bounded(validName, longestName))
	assert.Contains(t, string(rule), "/^codex-(dependency|remote)@"+bounded(validDependency, longestDependency))
	for name, fault := range map[string]func(string) error{"w": ValidName, "d": ValidDependencyName} {
		longest := map[string]int{"w": 64, "d": 28}[name]
		assert.NoError(t, fault(strings.Repeat("a", longest)))
		assert.Error(t, fault(strings.Repeat("a", longest+1)))
	}
}

func TestDependencyNames(t *testing.T) {
	for _, good := range []string{"a", "temporal", "7z", "my-db", strings.Repeat("a", 28)} {
		assert.NoError(t, ValidDependencyName(good))
		assert.LessOrEqual(t, len(DependencyUser(good)), 31)
	}
	for _, bad := range []string{"", "-a", "A", "a_b", "a.b", "a/b", "a b", strings.Repeat("a", 29)} {
		assert.Error(t, ValidDependencyName(bad))
	}
	assert.Equal(t, "codex-dependency@temporal.service", Dependency("temporal"))
}
