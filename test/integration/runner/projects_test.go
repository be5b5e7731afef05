package runner

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/nightly"
)

// projectTools are what projects are built with.
var projectTools = []string{"git", "git-lfs", "python3", "make", "cmake", "gcc", "libc6-dev", "openssh-client"}

// projectsBed is a machine with the daemon and with what projects need. alice uses it.
type projectsBed struct{ *daemonBed }

func newProjectsBed(t *testing.T, suite string) projectsBed {
	t.Helper()
	root := machine.Debian(suite, projectTools...)
	var binds []machine.Bind
	if suite == bed.Newest {
		root, binds = machine.Debian(suite, append(projectTools, defaultTools...)...), toolchains(t)
	}
	b := projectsBed{startDaemon(t, bootRunnerOn(t, root, runnerDaemonFiles, binds...))}
	require.NoError(t, b.CopyIn(filepath.Join(bed.Made(t, "CODEX_PROXY_TEST_CLIENTS"), "node"), "/usr/local/bin/node"))
	b.MustRun(t, "sh", "-ec", `chmod 755 /usr/local/bin/node; useradd -m -G codex-runner alice; chmod 0700 /home/alice
export HOME=/root; git config --global user.name test; git config --global user.email test@example.org`)
	return b
}

// scripts is a session of root with several commands.
type scripts struct {
	*daemonBed
	id       string
	commands int
}

// script runs a script as the next command of the session, and returns the lines of its output.
func (s *scripts) script(text string) []string {
	s.t.Helper()
	command := wire.NewCommand{Args: []string{"sh", "-c", "exec 2>&1\n" + text}}
	if s.id == "" {
		s.id = s.create(wire.NewSession{Commands: []wire.NewCommand{command}}).ID
	} else {
		s.send(http.MethodPost, "/v1/sessions/"+s.id+"/commands", command, nil)
	}
	s.commands++
	output, c := s.follow(s.id, s.commands)
	assert.Equal(s.t, ends.Succeeded, c.Outcome.Word, "%s\n%s", c.Outcome.Text, output)
	return strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
}

// TestRunnerProjects has the programs that projects are built with find in a session what they need.
func TestRunnerProjects(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newProjectsBed(t, suite)
		b.serve()
		b.commit("native")
		for _, p := range nativeProjects {
			b.works(p)
		}
		b.fresh()
		b.sandbox()
		b.large()
		if suite == bed.Newest {
			b.languages()
			for _, p := range defaultProjects {
				b.commit(p.dir)
				b.works(p)
			}
			b.compiled()
			if nightly.Is() { // Go compiles all that a test takes
				b.commit("gotest")
				b.works(project{"gotest", "go test ./...", "(cached)", false})
			}
		}
	})
}

// fresh has make find in later sessions that what a set-up has built is up to date: by the times of the files. The test
// of a set-up has no network.
func (b projectsBed) fresh() {
	b.t.Helper()
	stdout, stderr, err := b.asAlice(b.t, `cat >built.toml <<'END'
run = '''python3 -c "import socket; socket.create_connection(('127.0.0.1', 8080))" && echo run >>$HOME/reached'''
test = '''make check
python3 -c "import socket; socket.create_connection(('127.0.0.1', 8080))" && echo test >>$HOME/reached; false'''
END
for i in 1 2; do
codex-runner run --repo native --setup built.toml -- sh -c 'make --question check && cat $HOME/reached' || exit
done`)
	require.NoError(b.t, err, stderr)
	assert.Equal(b.t, "run\nrun\n", stdout)
}

// compiled has sessions begin with what Python compiles of tests and packages.
func (b projectsBed) compiled() {
	b.t.Helper()
	for _, project := range []string{"uv", "venv"} {
		stdout, stderr, err := b.asAlice(b.t, `codex-runner run --repo `+project+` -- sh -c 'ls tests/__pycache__ .venv/lib/*/site-packages/_pytest/__pycache__'`)
		require.NoError(b.t, err, stderr)
		assert.Regexp(b.t, `test_demo\.cpython-\d+\.pyc`, stdout, project)
		assert.Regexp(b.t, `python\.cpython-\d+\.pyc`, stdout, project)
	}
}

// sandbox has programs that start others, give files away, look for their home, and size themselves by the machine.
func (b projectsBed) sandbox() {
	t, s := b.t, &scripts{daemonBed: b.daemonBed}
	t.Helper()
	// Like make, this starts a program by posix_spawn(3) that sets the user; tests of other programs give files to
	// themselves.
	assert.Equal(t, []string{"spawned", "given"}, s.script(`python3 -c '
import os; os.waitpid(os.posix_spawn("/bin/echo", ["echo", "spawned"], {}, resetids=True), 0)'
touch file; ln -s file link; chown $(id -u):$(id -g) file; chown -h $(id -u):$(id -g) link; install -o $(id -u) file two; echo given`))

	hosts := b.MustRun(t, "sh", "-c", "sha256sum </etc/passwd")
	// All ways to the home lead there, also without the variable.
	home, user := paths.Home, paths.SessionUser(s.id)
	assert.Equal(t, []string{user, user, user, home, "/bin/bash", home, "id_ed25519", "id_ed25519.pub", "root", "same"},
		s.script(`HOST='`+strings.TrimSpace(hosts)+`'; id -un; id -gn; entry=$(getent passwd $(id -u)); echo "${entry%%:*}"
echo "$entry" | cut -d: -f6; echo "$entry" | cut -d: -f7
unset HOME; python3 -c 'import os.path; print(os.path.expanduser("~"))'; echo | ssh-keygen -q -t ed25519 -N "" >made; ls '`+home+`/.ssh'
stat -c %U /etc/passwd; echo x 2>/dev/null >>/etc/passwd || test "$(tail -n +2 /etc/passwd | sha256sum)" = "$HOST" && echo same`))

	// Of the machine as a whole they see what they size themselves by.
	assert.Equal(t, []string{"processors", "memory", "load", "up", "processes", "jemalloc"}, s.script(`set -e
node -e 'const os = require("os"); if (os.cpus().length > 0 && os.cpus()[0].times.user > 0) console.log("processors")'
test $(free | awk '/^Mem:/ { print $2 }') -gt 0; echo memory
python3 -c 'import os; os.getloadavg()'; grep -q / /proc/loadavg; echo load
uptime >made; echo up; ps -p $$ -o etime= >made; echo processes; test $(cat /proc/sys/vm/overcommit_memory) -lt 3; echo jemalloc`))
	assert.Empty(t, strings.Join(s.script(hidden), " "), "hide them in both units, codex-session@ and codex-environment@")
}

// large has a file in the home that counts as the session's, and files in Git LFS, of which a command gets the content
// when it asks for it.
func (b projectsBed) large() {
	t := b.t
	t.Helper()
	n := script("head -c 40000000 /dev/zero >~/.cached; exec sleep 4321")
	n.Limits.Disk = 20_000_000
	_, c := b.follow(b.create(n).ID, 1)
	assert.Equal(t, ends.DiskFull, c.Outcome.Word, c.Outcome.Text)

	_, stderr, err := b.asAlice(t, `set -e; git config --global user.name alice; git config --global user.email alice@example.org
git lfs install --skip-repo; git init -q -b main large; cd large; git lfs track '*.bin'; printf content >a.bin; git add .
git commit -qm first; git remote add origin http://`+indexAddress+`/large.git`)
	require.NoError(t, err, stderr)
	stdout, stderr, err := b.asAlice(t, `codex-runner run --network --repo large -- sh -c "head -c 7 a.bin; git lfs pull; cat a.bin"`)
	require.NoError(t, err, stderr)
	assert.Equal(t, "versioncontent", stdout, stderr)
	assert.Contains(t, stderr, "--repo large has files in Git LFS, and the command gets their pointers")
	assert.NotContains(t, stderr, "changes that are not committed")
}

// hidden prints which of the files that a session must not see it can read, and which it can write in /proc/sys.
const hidden = `cd /proc; for f in cmdline fs key-users keys locks modules kallsyms kcore kmsg \
slabinfo timer_list vmallocinfo pagetypeinfo; do
if test -d $f; then ls $f >/dev/null 2>&1 && echo $f; else head -c 1 $f >/dev/null 2>&1 && echo $f; fi; done
test -z "$(tail -n +2 sysvipc/shm)" || echo sysvipc; find sys -type f -writable 2>/dev/null; true`
