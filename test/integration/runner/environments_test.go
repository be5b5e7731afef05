package runner

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// environmentsBed is a machine with the tools of environments and a store of packages. Sessions have no network.
type environmentsBed struct {
	*daemonBed
}

// gate is a FIFO: while there is one, what plays micromamba waits there. While there is leavesSocket, it leaves a socket.
const (
	gate         = "/srv/gate"
	leavesSocket = "/srv/leavesSocket"
	// service is reached by those that have the network: without a store, what plays micromamba asks it.
	service = "http://127.0.0.1:8000/SHA256SUMS"
)

func newEnvironmentsBed(t *testing.T, suite string) environmentsBed {
	t.Helper()
	b := environmentsBed{newDaemonBed(t, suite, "git", "python3", "python3-pip")}
	require.NoError(t, b.CopyIn(bed.Made(t, "CODEX_PROXY_TEST_UV"), "/usr/local/bin/uv"))
	b.micromamba()
	b.store()
	b.MustRun(t, "sh", "-c", "chmod 755 /usr/local/bin/*; chmod -R a+rX /srv")
	b.set("[environments]\nstore = \"" + wheels + "\"\n")
	return b
}

// set replaces the settings.
func (b environmentsBed) set(settings string) {
	b.t.Helper()
	require.NoError(b.t, b.WriteFile("/etc/codex-runner/runner.toml", []byte(settings), 0o644))
	b.MustRun(b.t, "systemctl", "restart", runnerService)
}

// micromamba installs what plays it, behind the gate.
func (b environmentsBed) micromamba() {
	b.t.Helper()
	program := bed.Made(b.t, "CODEX_PROXY_TEST_MICROMAMBA")
	modules, err := filepath.Glob(filepath.Join(filepath.Dir(program), "venv/lib/python3*/site-packages"))
	require.NoError(b.t, err)
	require.Len(b.t, modules, 1)
	archive, err := exec.CommandContext(b.t.Context(), "tar", "-C", modules[0], "-c", "rattler", "-C", filepath.Dir(program), "micromamba").Output()
	require.NoError(b.t, err)
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := files.Next()
		if err != nil {
			break
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		var content bytes.Buffer
		_, err = content.ReadFrom(files)
		require.NoError(b.t, err)
		require.NoError(b.t, b.WriteFile("/usr/local/lib/mamba/"+header.Name, content.Bytes(), 0o644))
	}
	require.NoError(b.t, b.WriteFile("/usr/local/bin/micromamba", []byte(`#!/bin/sh
case $1 in create) test ! -e `+gate+` || cat `+gate+`
case $* in *--offline*) ;; *) curl -sf `+service+` >/dev/null && set -- "$@" --offline --channel file://`+wheels+`; esac
test ! -e `+leavesSocket+` || python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("../relay.sock")'; esac
PYTHONPATH=/usr/local/lib/mamba exec /usr/bin/python3 /usr/local/lib/mamba/micromamba "$@"
`), 0o755))
}

// store makes a store with two versions of a wheel, and a channel of conda with a package.
func (b environmentsBed) store() {
	b.t.Helper()
	files := map[string][]byte{
		"noarch/repodata.json": nil, "noarch/demo-1.0-0.tar.bz2": condaDemo(b.t),
		"linux-64/repodata.json": []byte(`{"info":{"subdir":"linux-64"},"packages":{},"packages.conda":{}}`),
	}
	for _, version := range []string{"1.0", "2.0"} {
		files["demo-"+version+"-py3-none-any.whl"] = wheelOf(b.t, version)
	}
	sum := func(name string) string {
		sum := sha256.Sum256(files[name])
		return hex.EncodeToString(sum[:])
	}
	const conda = "noarch/demo-1.0-0.tar.bz2"
	record := map[string]any{
		"build": "0", "build_number": 0, "depends": []string{}, "name": "demo", "noarch": "generic", "subdir": "noarch",
		"version": "1.0", "sha256": sum(conda), "size": len(files[conda]), "timestamp": 1700000000000,
	}
	index, err := json.Marshal(map[string]any{
		"info": map[string]string{"subdir": "noarch"}, "packages": map[string]any{path.Base(conda): record}, "packages.conda": map[string]any{},
	})
	require.NoError(b.t, err)
	files["noarch/repodata.json"] = index
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&sums, "%s  %s\n", sum(name), name)
	}
	files["SHA256SUMS"] = []byte(sums.String())
	for name, content := range files {
		require.NoError(b.t, b.WriteFile(wheels+"/"+name, content, 0o644))
	}
}

// condaDemo is a package of conda with a program; bzip2 is the compression of that format.
func condaDemo(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"bin/demo":         "#!/bin/sh\necho conda 1.0\n",
		"info/index.json":  `{"build":"0","build_number":0,"depends":[],"name":"demo","noarch":"generic","subdir":"noarch","version":"1.0"}`,
		"info/files":       "bin/demo\n",
		"info/paths.json":  `{"paths":[{"_path":"bin/demo","path_type":"hardlink"}],"paths_version":1}`,
		"info/about.json":  "{}",
		"info/recipe/meta": "",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o755)) //nolint:gosec // a program
	}
	archive, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-cj", "bin", "info").Output()
	require.NoError(t, err)
	return archive
}

// condaBed has a repository with an environment of conda, which the daemon knows.
type condaBed struct {
	environmentsBed

	project wire.Repository
}

// use is a session with the environment of the repository project, or of what its first command has made of the
// manifest, for its last one.
func (b condaBed) use(change, script string) wire.NewSession {
	n := wire.NewSession{Repository: b.project.Key, Ref: b.project.Has[0], Environment: "conda"}
	if change != "" {
		n.Commands = append(n.Commands, wire.NewCommand{Args: []string{"sh", "-ec", change}})
	}
	n.Commands = append(n.Commands, wire.NewCommand{Args: []string{"sh", "-c", "exec 2>&1; " + script}})
	return n
}

// repository makes the repository project, with a manifest, and has the daemon know it.
func (b *condaBed) repository() {
	b.t.Helper()
	b.MustRun(b.t, "sh", "-ec", `export HOME=/root; git config --global user.name t; git config --global user.email t@t
git init -q /srv/project; cd /srv/project; printf 'name: x\ndependencies:\n  - demo\n' >environment.yml; git add .; git commit -qm first
codex-runner run --repo . --env none -- true`)
	b.send(http.MethodPost, "/v1/repositories", wire.NewRepository{Path: "/srv/project"}, &b.project)
	b.project.Has = slices.DeleteFunc(b.project.Has, func(name string) bool { return strings.HasPrefix(name, wire.TagsMark) })
	require.Len(b.t, b.project.Has, 1)
}

// ran returns the output of the last command, which has to end as it should.
func (b condaBed) ran(s wire.Session, want ends.Word) (lines []string, c wire.Command) {
	b.t.Helper()
	output, c := b.follow(s.ID, len(s.Commands))
	require.Equal(b.t, want, c.Outcome.Word, "%s\n%s", c.Outcome.Text, output)
	return strings.Split(strings.TrimSpace(string(output)), "\n"), c
}

// builds counts the entries of the journal of that message.
func (b environmentsBed) builds(message string) int {
	b.t.Helper()
	b.MustRun(b.t, "journalctl", "--sync")
	return strings.Count(b.MustRun(b.t, "journalctl", "--unit="+runnerService, "--output=cat"), message)
}

const (
	builtEntry  = "an environment was built"
	failedEntry = "an environment could not be built"
)

// TestRunnerEnvironments has sessions share environments of conda, and builds that fail, die and outlive the daemon.
func TestRunnerEnvironments(t *testing.T) {
	t.Parallel()
	b := condaBed{environmentsBed: newEnvironmentsBed(t, bed.Newest)}
	b.repository()
	t.Run("one build", func(t *testing.T) {
		var sessions []wire.Session
		var keys []string
		for range 8 {
			sessions = append(sessions, b.create(b.use("", "demo; echo $CONDA_PREFIX; touch $CONDA_PREFIX/x; ls /environments")))
		}
		for _, s := range sessions {
			lines, _ := b.ran(s, ends.Failed) // ls
			require.Len(t, lines, 4)
			assert.Equal(t, "conda 1.0", lines[0])
			assert.Regexp(t, "^/environments/[0-9a-f]{64}/conda$", lines[1])
			assert.Contains(t, lines[2], "Read-only file system")
			assert.Contains(t, lines[3], "Permission denied")
			keys = append(keys, path.Base(path.Dir(lines[1])))
		}
		assert.Len(t, slices.Compact(keys), 1)
		assert.Equal(t, 1, b.builds(builtEntry))
		for change, want := range map[string]int{"touch environment.yml": 1, "echo '# another' >>environment.yml": 2} {
			lines, _ := b.ran(b.create(b.use(change, "demo")), ends.Succeeded)
			assert.Equal(t, "conda 1.0", lines[0])
			if want > 1 {
				assert.Equal(t, want, b.builds(builtEntry), change)
			}
		}
	})
	t.Run("warm", func(t *testing.T) { b.warm(t, bed.Newest) })
	t.Run("faults", func(t *testing.T) { b.faults(t) })
	t.Run("deaths", func(t *testing.T) { b.deaths(t) })
	t.Run("no room", func(t *testing.T) {
		b.set("[environments]\nstore = \"" + wheels + "\"\nmax_bytes = \"1K\"\n")
		b.MustRun(t, "sh", "-c", "until test -z \"$(find "+paths.EnvironmentStates+" -mindepth 2)\"; do sleep 0.02; done")
		_, c := b.ran(b.create(b.use("", "true")), ends.EnvironmentFailed)
		assert.Contains(t, c.Outcome.Text, "takes more than 1024 bytes")
	})
	t.Run("the network", func(t *testing.T) { b.network(t) })
}

// warm logs what an environment adds to the start of a command.
func (b condaBed) warm(t *testing.T, suite string) {
	built := b.builds(builtEntry)
	for _, name := range []string{"none", "conda"} {
		var times []time.Duration
		for range 6 {
			n := b.use("true", "true")
			n.Environment = name
			s := b.create(n)
			_, c := b.ran(s, ends.Succeeded)
			_, first := b.follow(s.ID, 1)
			times = append(times, c.Started.Sub(first.Ended))
		}
		slices.Sort(times)
		t.Logf("%s: from the end of a command to the start of the next, with the environment %s: median %v, fastest %v", suite, name,
			times[len(times)/2], times[0])
	}
	assert.Equal(t, built, b.builds(builtEntry))
}

// faults has environments that cannot be.
func (b condaBed) faults(t *testing.T) {
	_, c := b.ran(b.create(b.use("rm environment.yml", "true")), ends.EnvironmentFailed)
	assert.Contains(t, c.Outcome.Text, "the workspace has no environment.yml for the environment conda")
	n := b.use("", "true")
	n.Environment = "stepu"
	status, text, err := b.try(http.MethodPost, "/v1/sessions", n)
	require.NoError(t, err)
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, string(text), "do you mean setup?")
	failed := b.builds(failedEntry)
	for range 2 {
		_, c = b.ran(b.create(b.use("echo '  - no-such-package' >>environment.yml", "true")), ends.EnvironmentFailed)
		assert.Contains(t, c.Outcome.Text, "no-such-package")
	}
	assert.Equal(t, failed+2, b.builds(failedEntry), "the next command builds it again")
	b.MustRun(t, "touch", leavesSocket)
	_, c = b.ran(b.create(b.use("echo '# listens' >>environment.yml", "true")), ends.EnvironmentFailed)
	assert.Contains(t, c.Outcome.Text, `"relay.sock" is no file, directory or link`)
	b.MustRun(t, "rm", leavesSocket)
}

// deaths kills builds and daemons.
func (b condaBed) deaths(t *testing.T) {
	// The environment was there: the command finds out that somebody has removed it.
	b.MustRun(t, "sh", "-c", "rm -rf "+paths.EnvironmentStates+"/*; mkfifo --mode=666 "+gate)
	killed := b.create(b.use("", "demo"))
	unit := b.building(killed)
	seen := func() string {
		return b.MustRun(t, "find", paths.EnvironmentStates, "-mindepth", "2", "-maxdepth", "2", "-not", "-path", "*/build-*")
	}
	assert.Empty(t, seen(), "no session sees what is built")
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", unit)
	_, c := b.ran(killed, ends.EnvironmentFailed)
	assert.Contains(t, c.Outcome.Text, "was killed or did not start: `journalctl -u "+unit+"` has the reason")
	assert.Empty(t, seen(), "nothing half is left")
	assert.Empty(t, b.MustRun(t, "ls", paths.PrivateStates+"/codex-environment-build"))

	waits, cancelled := b.create(b.use("", "demo")), b.create(b.use("", "demo"))
	require.Equal(t, unit, b.building(waits))
	invocation := b.MustRun(t, "systemctl", "show", "--property=InvocationID", unit)
	require.NoError(t, b.Kill(t.Context(), runnerService, unix.SIGKILL))
	for status, pace := 0, (await.Pace{}); status != http.StatusOK; pace.Pause(t.Context()) { // of the next daemon
		status, _, _ = b.try(http.MethodGet, "/v1/status", nil)
	}
	b.until(cancelled.ID, 1, wire.CommandStarting)
	b.send(http.MethodPost, "/v1/sessions/"+cancelled.ID+"/cancel", wire.Cancel{}, nil)
	b.ran(cancelled, ends.Cancelled)
	assert.Equal(t, invocation, b.MustRun(t, "systemctl", "show", "--property=InvocationID", unit), "the build goes on")
	b.MustRun(t, "sh", "-c", ": >"+gate+"; rm "+gate)
	lines, _ := b.ran(waits, ends.Succeeded)
	assert.Equal(t, "conda 1.0", lines[0])
}

// building waits until an environment is built for the session, and returns the unit.
func (b condaBed) building(s wire.Session) string {
	b.t.Helper()
	b.until(s.ID, 1, wire.CommandStarting)
	unit := b.MustRun(b.t, "sh", "-c", `until unit=$(pgrep --full --exact "cat `+gate+`" | head -n1 | xargs -I{} cat /proc/{}/cgroup) && test "$unit"; do sleep 0.02; done; echo "$unit"`)
	return regexp.MustCompile(`codex-environment@[0-9a-f]{28}\.service`).FindString(unit)
}

// network has a session with the network reach a service of the host, and one without it not; the same of builds.
func (b condaBed) network(t *testing.T) {
	b.MustRun(t, "systemd-run", "--unit=service", "--property=Type=exec", "python3", "-m", "http.server", "--bind=127.0.0.1", "--directory="+wheels, "8000")
	b.MustRun(t, "sh", "-c", "until curl -sf "+service+" >/dev/null; do sleep 0.02; done")
	n := wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"sh", "-c", "curl -sf " + service + " | wc -c"}}}}
	lines, _ := b.ran(b.create(n), ends.Succeeded)
	assert.Equal(t, "0", lines[0])
	n.Network = true
	lines, _ = b.ran(b.create(n), ends.Succeeded)
	assert.NotEqual(t, "0", lines[0])

	b.set("network = true\n[environments]\nnetwork = \"online\"\n")
	n = b.use("", "demo")
	_, c := b.ran(b.create(n), ends.EnvironmentFailed)
	assert.Contains(t, c.Outcome.Text, "may not be built with the network for this session")
	n.Network = true
	lines, _ = b.ran(b.create(n), ends.Succeeded)
	assert.Equal(t, "conda 1.0", lines[0])
	n.Network = false
	b.ran(b.create(n), ends.Succeeded) // it is there
	b.set("")
	_, c = b.ran(b.create(b.use("echo '# written' >>environment.yml", "demo")), ends.EnvironmentFailed)
	assert.Contains(t, c.Outcome.Text, "a command may have written its manifests")
	b.set("network = false\n")
	n.Network = true
	status, text, err := b.try(http.MethodPost, "/v1/sessions", n)
	require.NoError(t, err)
	assert.Equal(t, http.StatusForbidden, status, string(text))
}
