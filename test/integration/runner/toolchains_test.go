package runner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// toolchainsMachine has toolchains where people have them: in the closed home of alice, and Go where go.dev says.
const toolchainsMachine = `useradd -m -G codex-runner -c 'Alice Example,Room 1' alice; useradd -m -G codex-runner bob
mkdir -p /opt/tools /usr/local/go/bin /home/alice/.sdk/bin /home/alice/.cargo/bin /home/alice/.rustup/toolchains /home/alice/app /root/closed
for f in /opt/tools/tool /usr/local/go/bin/go /home/alice/.sdk/bin/sdk /home/alice/.cargo/bin/own /root/closed/stolen; do
  printf '#!/bin/sh\necho %s\n' ${f##*/} >$f; chmod 755 $f
done
cp /usr/bin/sha256sum /home/alice/.cargo/bin/cargo-sum; touch /home/alice/.rustup/settings.toml
echo token >/home/alice/.cargo/credentials.toml; echo token >/home/alice/.sdk/token; chmod 600 /home/alice/.cargo/credentials.toml /home/alice/.sdk/token
cd /home/alice/app; git init -q -b main
printf '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["demo==2.0"]\n' >pyproject.toml
HOME=/root UV_PYTHON_DOWNLOADS=never /home/alice/.local/bin/uv lock --quiet --offline --no-index --find-links ` + wheels + ` --python /usr/bin/python3
git add .; git -c user.name=t -c user.email=t@t commit -qm first
chown -R alice:alice /home/alice; chmod 700 /home/alice`

const toolchainSettings = `[sandbox]
path = ["/opt/tools"]
env = { WORD = "s3cret-word" }
toolchains = ["/home/alice/.sdk", "/opt/zig"]
user_toolchains = true
[environments]
store = "` + wheels + `"
`

// TestRunnerToolchains has sessions use programs in the closed home of a user: those that the settings show all users,
// and the user's own.
func TestRunnerToolchains(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := environmentsBed{newDaemonBed(t, suite, "git", "python3", "python3-pip")}
		b.MustRun(t, "mkdir", "-p", "/home/alice/.local/bin")
		require.NoError(t, b.CopyIn(bed.Made(t, "CODEX_PROXY_TEST_UV"), "/home/alice/.local/bin/uv"))
		b.MustRun(t, "chmod", "755", "/home/alice/.local/bin/uv")
		b.store()
		b.MustRun(t, "sh", "-ec", toolchainsMachine)
		b.toolchainsThatAreHidden(t)
		b.set(toolchainSettings)
		b.ownToolchains(t)
		b.othersToolchains(t)
		b.buildWithToolchain(t)
		b.planWithToolchain(t)
		b.toolchainsThatAreGone(t)
		assert.Equal(t, "0\n", b.MustRun(t, "sh", "-c", "grep -c toolchains /proc/self/mountinfo || true"), "all are taken back")
		assert.Equal(t, "", b.MustRun(t, "sh", "-c", "journalctl --no-pager | grep s3cret-word || true; "+
			"systemctl show codex-runner.service 'codex-session@*' | grep s3cret-word || true"))
		assert.Equal(t, "", b.MustRun(t, "sh", "-c", `journalctl --no-pager _PID=1 | grep -E '(toolchains|workspace).*[.]mount: ' || true`))
		b.MustRun(t, "sh", "-ec", "test -x /home/alice/.cargo-old/bin/own; test -x /root/closed/stolen")
	})
}

// toolchainsThatAreHidden are named to their user, with the line that shows them.
func (b environmentsBed) toolchainsThatAreHidden(t *testing.T) {
	const line = `an administrator shows it with toolchains = ["/home/alice/.cargo/bin", "/home/alice/.rustup"] of [sandbox] in ` +
		"/etc/codex-runner/runner.toml, or with user_toolchains = true to each user their own; then systemctl restart codex-runner.\n"
	for _, program := range []string{"own", "/home/alice/.cargo/bin/own", "sh -c 'ls / && own x'"} {
		status, _, stderr := b.alice(`codex-runner run --`, program)
		assert.Equal(t, "127", status)
		assert.Contains(t, stderr, "This host has /home/alice/.cargo/bin/own for you, and sessions do not find it: "+line)
	}
	status, _, stderr := b.alice(`codex-runner run --repo app -- true`)
	assert.Equal(t, "125", status)
	assert.Contains(t, stderr, "this host has no uv")
	assert.Contains(t, stderr, "This host has /home/alice/.local/bin/uv for you")
	_, _, stderr = b.alice(`codex-runner run -- none`)
	assert.NotContains(t, stderr, "This host has")
}

// ownToolchains is what a session of alice sees.
func (b environmentsBed) ownToolchains(t *testing.T) {
	status, stdout, stderr := b.alice(`codex-runner run -- sh -c 'tool; go; sdk; own; echo abc | cargo-sum; echo $WORD $RUSTUP_HOME $TERM
cat /toolchains/home/alice/.sdk/token; echo x >/toolchains/home/alice/.cargo/bin/x; ls -A /toolchains/home/alice/.cargo; ls /home/alice /run/codex-session'`)
	assert.Equal(t, "tool\ngo\nsdk\nown\n"+
		"edeaaff3f1774ad2888673770c6d64097e391bc362d7d6fb34982ddf0efd18cb  -\n"+
		"s3cret-word /toolchains/home/alice/.rustup dumb\nbin\n", stdout, stderr)
	assert.Equal(t, "2", status)
	for _, refusal := range []string{
		"/toolchains/home/alice/.sdk/token: Permission denied", "/toolchains/home/alice/.cargo/bin/x: Read-only file system",
		"cannot access '/home/alice'", "directory '/run/codex-session': Permission denied",
	} {
		assert.Contains(t, stderr, refusal)
	}
	status, stdout, stderr = b.alice(`codex-runner run -- /home/alice/.cargo/bin/own`)
	assert.Equal(t, []string{"0", "own\n", ""}, []string{status, stdout, stderr}, "by its path on the host")
	_, stdout, stderr = b.alice(`codex-runner run -- sh -c 'git init -q; git commit -q --allow-empty -m x; git log --format="%an %ae"'`)
	assert.Regexp(t, `^Alice Example alice@`, stdout, stderr)
}

// othersToolchains is what a session of bob sees: nothing that is alice's own. No user of the host sees more than before.
func (b environmentsBed) othersToolchains(t *testing.T) {
	out, _, _ := b.Run(t.Context(), "runuser", "-u", "bob", "--", "sh", "-c",
		`cd /; codex-runner run -- sh -c 'sdk; own; ls -A /toolchains/home/alice' 2>&1`)
	assert.Contains(t, out, "sdk\n")
	assert.Contains(t, out, "own: not found")
	assert.NotContains(t, out, ".cargo")
	out = b.MustRun(t, "sh", "-c", `runuser -u alice -- codex-runner run -- sh -c 'own; while ! test -e stop; do sleep 0.02; done' >/tmp/own 2>&1 & `+
		`until test -s /tmp/own; do sleep 0.02; done; runuser -u bob -- ls -R /run/codex-session 2>&1; ls -A /run/codex-session/toolchains/*/home/alice; `+
		`kill $!; wait || true`)
	assert.Contains(t, out, "ls: cannot open directory '/run/codex-session/toolchains': Permission denied\n")
	assert.Contains(t, out, ".sdk\n", "it was there, for root")
}

// buildWithToolchain has the unit of a build use the tool of a user.
func (b environmentsBed) buildWithToolchain(t *testing.T) {
	status, stdout, stderr := b.alice(`codex-runner run --repo app --env uv -- python -c 'import demo; print(demo.x)'`)
	assert.Equal(t, []string{"0", "2.0\n"}, []string{status, stdout}, stderr)
}

// planWithToolchain says before what a command will find.
func (b environmentsBed) planWithToolchain(t *testing.T) {
	_, stdout, stderr := b.alice(`{ codex-runner run --dry-run --repo app --env setup -- own; codex-runner run --dry-run --repo app --network -- own; }`)
	plain := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"environment: setup: ", `# uv, by "uv.lock"`, " sync --all-extras", "network: none path: /opt/tools:/toolchains/home/alice/.local/bin:" +
			"/toolchains/home/alice/.cargo/bin:/toolchains/home/alice/.sdk/bin:/usr/local/sbin:",
		"/home/alice/.sdk, seen as /toolchains/home/alice/.sdk", "not shown: /opt/zig is not there", "variables: WORD",
		"unit: an instance of codex-session@.service", "by the manifests in /home/alice/app: uv network: the host's",
		"codex-session-online@.service",
	} {
		assert.Contains(t, plain, want, stderr)
	}
	assert.NotContains(t, plain, "%")
	assert.NotContains(t, plain, "s3cret")
}

// toolchainsThatAreGone leaves out what is missing or was replaced, and says so; nothing else is shown in its place.
func (b environmentsBed) toolchainsThatAreGone(t *testing.T) {
	status, _, stderr := b.alice(`codex-runner run -- zig`)
	assert.Equal(t, "127", status)
	assert.Contains(t, stderr, "/opt/zig is not there: install the toolchain again, or take it out of toolchains of [sandbox]")
	b.MustRun(t, "sh", "-ec", "cd /home/alice; mv .sdk .sdk-old; ln -s /root/closed .sdk; mv .cargo .cargo-old; ln -s /root .cargo; mkdir /root/bin")
	status, stdout, stderr := b.alice(`codex-runner run -- sh -c 'own; sdk; stolen; tool; find /toolchains'`)
	assert.Equal(t, "0", status)
	assert.Contains(t, stdout, "tool\n")
	for _, name := range []string{"own", "sdk", "stolen"} {
		assert.Contains(t, stderr, name+": not found")
	}
	assert.NotContains(t, stdout, "/.sdk")
	assert.NotContains(t, stdout, "/.cargo")
	_, _, stderr = b.alice(`codex-runner run -- sdk`)
	assert.Contains(t, stderr, "/home/alice/.sdk is or goes through a symbolic link: name the directory itself")
	doctor, _, _ := b.Run(t.Context(), "codex-runner", "doctor")
	assert.Contains(t, strings.Join(strings.Fields(doctor), " "), "/opt/zig is not there")
}
