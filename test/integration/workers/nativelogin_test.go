package workers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/nightly"
)

const (
	// secretMark begins every secret of these tests. No tool may show one to the model.
	secretMark = "hidden-from-tools-"
	secretFile = nativeHome + "/auth.json"
	tryFile    = "/srv/try.sh"

	// dot is a PNG of one pixel.
	dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

// secretBed is a bed whose native worker has a secret in each place that may hold a login:
// two homes, the provider's key, the environment, a worker file and a drop-in.
func secretBed(t *testing.T, suite string) *bed.Bed {
	t.Helper()
	b := bed.NewOn(t, machine.Debian(suite, "git", "python3-minimal"), secretWorker(""), "")
	write(b, "/etc/codex-proxy/key", secretMark+"key")
	write(b, "/etc/systemd/system/codex-worker@.service.d/key.conf",
		"[Service]\nLoadCredential=key:/etc/codex-proxy/key\nEnvironment=OPENAI_API_KEY="+secretMark+"env\n")
	b.MustRun(t, "systemctl", "daemon-reload")
	b.Start()
	for _, home := range []string{nativeHome, "/var/lib/codex-worker/other"} {
		b.MustRun(t, "mkdir", "-p", "-m", "700", home)
		write(b, home+"/auth.json", `{"OPENAI_API_KEY":"`+secretMark+`home"}`)
		b.MustRun(t, "sh", "-c", "echo "+dot+" | base64 -d >"+home+"/dot.png; cp "+home+"/dot.png /srv")
		b.MustRun(t, "chown", "-R", "--reference="+nativeHome+"/", home+"/")
		b.MustRun(t, "chmod", "-R", "go=", home+"/")
	}
	return b
}

// secretWorker is the file of a native worker with keys, and lines of its [codex] table.
func secretWorker(codex string) string {
	return bed.NativeWorker() + "credential = \"key\"\n[codex]\n" + codex +
		"[codex.model_providers.other]\nname = \"x\"\nbase_url = \"http://127.0.0.1:9/v1\"\n" +
		"http_headers = { X = \"" + secretMark + "file\" }\n"
}

func write(b *bed.Bed, path, text string) {
	b.T.Helper()
	require.NoError(b.T, b.WriteFile(path, []byte(text), 0o644))
}

// restartWith restarts the worker with another file.
func restartWith(b *bed.Bed, worker string) {
	b.T.Helper()
	write(b, bed.WorkerFile, worker)
	b.MustRun(b.T, "systemctl", "restart", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
}

// script makes the model run a shell script in codex's own shell tool.
func script(b *bed.Bed, text string) string {
	b.T.Helper()
	write(b, tryFile, text)
	return tool(b, "sh "+tryFile+" 2>&1")
}

// keptSecret asserts that the model has seen no secret, in any turn.
func keptSecret(b *bed.Bed) {
	b.T.Helper()
	for _, turn := range b.Models.Turns() {
		for _, item := range turn.Body.Input {
			assert.NotContains(b.T, string(item), secretMark)
		}
	}
}

const noFile = "No such file or directory"

// shellAttacks are scripts of a model that looks for a login, each with a part of its
// output, which proves that it ran.
var shellAttacks = map[string]struct{ script, want string }{
	"path":       {"cat " + secretFile, "cat: " + secretFile + ": " + noFile},
	"own root":   {"cat /proc/self/root" + secretFile + " /proc/thread-self/root" + secretFile, noFile},
	"relative":   {"cat ../auth.json ../../other/auth.json", "cat: ../auth.json: " + noFile},
	"another's":  {"cat /var/lib/codex-worker/other/auth.json /var/lib/private/*/*/auth.json", noFile},
	"other root": {"for p in /proc/[0-9]*; do cat $p/root" + secretFile + " $p/cwd/../auth.json; done", noFile},
	"descriptors": {"for f in /proc/[0-9]*/fd/*; do readlink $f; case $f in */[012]|*/255) ;; *) cat $f;; esac; " +
		"done; echo done", "done"},
	"environment": {"env; tr '\\0' '\\n' </proc/1/environ; cat /proc/*/environ; echo done", "HOME=/tmp"},
	"arguments":   {"cat /proc/*/cmdline", "codex-linux-sandbox"},
	"history": {"cat ../logs_2.sqlite ../history.jsonl; ls ../sessions",
		"ls: cannot access '../sessions': " + noFile},
	"settings": {"cat ../config.toml " + bed.WorkerFile + " /etc/systemd/system/codex-worker@.service.d/key.conf",
		"cat: " + bed.WorkerFile + ": Permission denied"},
	"credential": {"cat $CREDENTIALS_DIRECTORY/key /run/credentials/*/key; ls /run",
		"ls: cannot access '/run': " + noFile},
	"every file": {"find /dev /etc /opt /srv /tmp /var /run -name auth.json -o -name 'logs_*' -o -name '*.sock'; " +
		"grep -rsahoE 'hidden-from[-]tools-[a-z]+' --exclude=try.sh --exclude-dir=proc --exclude-dir=usr " +
		"--exclude-dir=codex /*; echo done", "done"},
	"memory": {`python3 -c '
import os, re
for p in filter(str.isdigit, os.listdir("/proc")):
    if int(p) == os.getpid(): continue
    with open("/proc/%s/maps" % p) as maps, open("/proc/%s/mem" % p, "rb", 0) as mem:
        for a, b in re.findall("(?m)^([0-9a-f]+)-([0-9a-f]+) r", maps.read()):
            try:
                mem.seek(int(a, 16))
                print(re.findall(b"hidden-from[-]tools-[a-z]+", mem.read(int(b, 16) - int(a, 16))))
            except (OSError, OverflowError, ValueError): pass
' | sort -u; echo done`, "done"},
	"ptrace": {`perl -e 'for $p (1..40) { syscall(101, 16, $p, 0, 0); print "$!;" }'`, "Operation not permitted;"},
	"core":   {"ulimit -c unlimited; sh -c 'kill -SEGV $$'; ls core*", "error setting limit"},
	"links": {"ln -s " + secretFile + " /dev/shm/l; cat /dev/shm/l; ln " + secretFile + " /dev/shm/h",
		"cat: /dev/shm/l: " + noFile},
	"user namespace": {"unshare -r cat " + secretFile + " /proc/1/root" + secretFile,
		"cat: " + secretFile + ": " + noFile},
	"unmounting": {"unshare -rm sh -c 'umount /var/lib; umount -l /; mkdir /m; mount --bind / /m; " +
		"cat /m" + secretFile + "'",
		"cat: /m" + secretFile + ": " + noFile},
	"another namespace": {"nsenter -t 1 -m cat " + secretFile + "; chroot /proc/1/root cat " + secretFile, "nsenter: "},
	"sockets": {`python3 -c '
import glob, socket
for path in ["/run/codex-worker/default/app-server.sock", "/run/codex-proxy/default.sock",
        "/run/dbus/system_bus_socket"] + glob.glob("/tmp/codex-daemon-*/*"):
    try: socket.socket(socket.AF_UNIX).connect(path)
    except OSError as e: print(path, e)
    else: print("connected")
try: socket.socket().connect(("127.0.0.1", 8787))
except OSError as e: print(e)
else: print("connected")'; ls /tmp/codex-daemon-*`, "app-server.sock [Errno"},
}

// codeAttacks are those by codex's own tools.
var codeAttacks = map[string]struct{ program, want string }{
	"image": {"text(JSON.stringify(await tools.view_image({path: `" + nativeHome + "/dot.png`})))", noFile},
	"linked image": {"text(JSON.stringify(await tools.view_image({path: `" + nativeHome + "/workspace/dot.png`})))",
		noFile},
	"patch": {"text(await tools.apply_patch(`*** Begin Patch\\n*** Update File: " + secretFile +
		"\\n*** Move to: leaked\\n@@\\n-x\\n+y\\n*** End Patch`))", noFile},
	"escalation": {"text(await tools.exec_command({cmd: `cat " + secretFile + "`, " +
		"sandbox_permissions: `require_escalated`, justification: `x`}))", "you cannot ask for escalated permissions"},
	"permissions": {"text(await tools.exec_command({cmd: `cat " + secretFile + "`, justification: `x`, " +
		"sandbox_permissions: `with_additional_permissions`, additional_permissions: {file_system: " +
		"{read: [`" + nativeHome + "`]}}}))", "you cannot ask for escalated permissions"},
	"directory": {"text((await tools.exec_command({cmd: `pwd; cat auth.json`, workdir: `" + nativeHome +
		"`})).output)", noFile},
	"login shell": {"text((await tools.exec_command({cmd: `cat " + secretFile + "`, login: true})).output)", noFile},
	"import":      {"(await import(`fs`)).readFileSync(`" + secretFile + "`)", "unsupported import"},
}

// A model with codex's own tools finds no login: neither the worker's own nor another's.
// Each attack runs in a real worker, with a workspace that tools may write, and in make nightly read-only, too.
func TestToolsOfANativeWorkerFindNoLogin(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := secretBed(t, suite)
		// A workspace may have come from anywhere.
		write(b, nativeHome+"/workspace/.codex/config.toml", "sandbox_mode = \"danger-full-access\"\n"+
			"default_permissions = \":danger-full-access\"\nnotify = [\"/usr/bin/touch\", \"/tmp/notified\"]\n"+
			"[mcp_servers.x]\ncommand = \"/usr/bin/touch\"\nargs = [\"/tmp/served\"]\n")
		b.MustRun(t, "ln", "-s", secretFile, nativeHome+"/workspace/link")
		b.MustRun(t, "ln", "-s", secretFile, nativeHome+"/workspace/AGENTS.md")
		b.MustRun(t, "ln", "-s", nativeHome+"/dot.png", nativeHome+"/workspace/dot.png")
		b.MustRun(t, "sh", "-ec", "cd "+nativeHome+`/workspace; chown root .; git init; echo one >filtered.txt; git add filtered.txt
			echo two >filtered.txt; echo '*.txt filter=x' >.gitattributes
			git config filter.x.clean "touch `+nativeHome+`/filtered 2>/dev/null; cat"`)
		b.MustRun(t, "chown", "-R", "--reference="+nativeHome, nativeHome+"/workspace")
		for _, mode := range []string{"workspace-write", "read-only"}[:nightly.Or(2, 1)] {
			restartWith(b, secretWorker("sandbox_mode = \""+mode+"\"\n"))
			for name, a := range shellAttacks {
				assert.Contains(t, script(b, a.script), a.want, "%s, %s", name, mode)
			}
			for name, a := range codeAttacks {
				if !hasCode(b) {
					break
				}
				assert.Contains(t, code(b, a.program), a.want, "%s, %s", name, mode)
			}
			assert.Contains(t, script(b, "cat link"), "cat: link: "+noFile)
			toolsWork(b, mode)
		}
		keptSecret(b)
		assert.Equal(t, "no", strings.TrimSpace(b.MustRun(t, "sh", "-c",
			"cd /proc/$(systemctl show -p MainPID --value "+bed.WorkerUnit+")/root/tmp; "+
				"ls notified served "+nativeHome+"/filtered 2>/dev/null || echo no")))
		assert.Contains(t, b.MustRun(t, "codex-proxy", "doctor"), "ok    sandbox       worker default")
	})
}

// toolsWork asserts that the tools which a login is hidden from are of use.
func toolsWork(b *bed.Bed, mode string) {
	b.T.Helper()
	write := map[string]string{"read-only": "Read-only file system", "workspace-write": "made"}[mode]
	assert.Contains(b.T, script(b, "pwd; git status; ls -d .codex; python3 -c 'print(6 * 7)'; rg --version"),
		`/var/lib/private/codex-worker/default/workspace\nOn branch`)
	assert.Contains(b.T, script(b, "python3 -c 'print(6 * 7)'"), `42\n`)
	assert.Contains(b.T, script(b, "echo made >new; cat new; mktemp"), write)
	if !hasCode(b) {
		return
	}
	assert.Contains(b.T, code(b, "image(await tools.view_image({path: `/srv/dot.png`}))"), "data:image/png")
}

// The workspace may be anywhere, also around or in the home.
func TestWorkspacesOfANativeWorker(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := secretBed(t, suite)
		write(b, "/etc/systemd/system/codex-worker@.service.d/data.conf", "[Service]\nReadWritePaths=/data\n")
		b.MustRun(t, "mkdir", "/data")
		b.MustRun(t, "systemctl", "daemon-reload")
		for _, c := range []struct{ dir, mode string }{
			{"/srv/code", "read-only"}, {"/data/code", "read-only"}, {"/data/code", "workspace-write"},
			{nativeHome + "/my/code", "read-only"}, {nativeHome + "/my/code", "workspace-write"},
			{"/var/lib", "read-only"}, {"/", "read-only"},
		} {
			b.MustRun(t, "mkdir", "-p", c.dir)
			if strings.HasSuffix(c.dir, "/code") {
				b.MustRun(t, "chown", "--reference="+nativeHome, c.dir)
			}
			restartWith(b, strings.Replace(secretWorker("sandbox_mode = \""+c.mode+"\"\n"), "model =",
				"workspace = \""+c.dir+"\"\nmodel =", 1))
			out := script(b, "pwd; echo new >made && cat made; cat "+secretFile+" /run/credentials/*/key; "+
				shellAttacks["every file"].script)
			assert.Regexp(t, `("|Output:\\n)`+strings.Replace(c.dir, "/var/lib/codex", "/var/lib/private/codex", 1)+`\\n`, out)
			assert.Equal(t, c.mode == "workspace-write", strings.Contains(out, `new\n`), out)
			assert.Contains(t, out, "cat: "+secretFile+": ")
			assert.Contains(t, out, `done\n`)
		}
		keptSecret(b)

		// With a network, a command may connect to a socket that it sees.
		write(b, bed.WorkerFile, strings.Replace(secretWorker("[codex.permissions.worker.network]\nenabled = true\n"),
			"model =", "workspace = \"/\"\nmodel =", 1))
		_, _, err := b.Run(t.Context(), "systemctl", "restart", bed.WorkerUnit)
		assert.Error(t, err)
		assert.Contains(t, b.UnitJournal(bed.WorkerUnit),
			"codex's tools could reach /run/codex-worker/default, and so the worker's login: ")
	})
}
