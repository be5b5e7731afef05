package workers

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/versions"
	"codex-proxy/test/bed"
	"codex-proxy/test/codexes"
)

const (
	nativeHome = "/var/lib/codex-worker/default"

	// inSandbox is a shell command that reports its user, its filters and where it
	// may write. The home is not in the sandbox, or an empty directory without a disk.
	inSandbox = `id -u; grep -c Seccomp_filters /proc/self/status; touch ` + nativeHome +
		`/made 2>/dev/null; for d in . /etc /srv; do touch $d/made 2>/dev/null && echo $d yes || echo $d no; done`
)

// tool makes the model call codex's own shell tool, and returns the result that codex
// reports to the model. Codex answers for a command that still runs after a while, so the
// program waits for the command's end.
func tool(b *bed.Bed, command string) string {
	b.T.Helper()
	if !hasCode(b) {
		call, err := json.Marshal(map[string]any{"cmd": command, "login": false, "yield_time_ms": 30_000})
		require.NoError(b.T, err)
		return result(b, "call exec_command "+string(call))
	}
	return code(b, "let r = await tools.exec_command({cmd: `"+command+"`, login: false, yield_time_ms: 30000}); "+
		"let out = r.output; while (r.session_id !== undefined) { "+
		"r = await tools.write_stdin({session_id: r.session_id, chars: ``, yield_time_ms: 30000}); out += r.output } "+
		"text(out)")
}

// hasCode reports whether codex offers the model its tools in a program, as the pinned one does; an older one offers each
// as a function.
func hasCode(b *bed.Bed) bool {
	version, err := codexes.Version(bed.RequireCodex(b.T))
	require.NoError(b.T, err)
	return !versions.Older(version, versions.Tested)
}

// code makes the model run a program in codex's own tool "exec", and returns the result
// that codex reports to the model at the end of the program.
func code(b *bed.Bed, program string) string {
	b.T.Helper()
	return result(b, "custom exec // @exec: {\"yield_time_ms\": 300000}\ntry { "+program+" } catch (e) { text(`error ${e}`) }")
}

// result makes the model call a tool, and returns what codex reports to it.
func result(b *bed.Bed, step string) string {
	b.T.Helper()
	before := len(b.Models.Turns())
	require.NotContains(b.T, step, "]]")
	status, _, answer := b.Chat(false, "[["+step+"]]")
	require.Equal(b.T, http.StatusOK, status, answer)
	turns := b.Models.Turns()[before:]
	require.Len(b.T, turns, 2, "the call, and its output")
	return string(turns[1].Body.Input[len(turns[1].Body.Input)-1])
}

// A native worker runs a command that the model asks for, in codex's sandbox under
// the restrictions of the installed unit.
func TestNativeWorkerRunsCommands(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.NativeWorker(), "")
		b.Start()
		out := tool(b, inSandbox)
		assert.Contains(t, out, bed.UID(b, bed.WorkerUnit)+`\n1\n. no\n/etc no\n/srv no\n`)
		page := b.MustRun(t, "codex-proxy", "doctor")
		assert.Contains(t, page, "ok    sandbox       worker default: codex runs a command in its sandbox, inside "+
			bed.WorkerUnit+"\n")

		require.NoError(t, b.WriteFile(bed.WorkerFile,
			[]byte(bed.NativeWorker()+"[codex]\nsandbox_mode = \"workspace-write\"\n"), 0o644))
		b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
		b.Until("ready", bed.Ready)
		out = tool(b, inSandbox)
		assert.Contains(t, out, bed.UID(b, bed.WorkerUnit)+`\n1\n. yes\n/etc no\n/srv no\n`)
		b.MustRun(t, "test", "-e", nativeHome+"/workspace/made")
		b.MustRun(t, "test", "!", "-e", nativeHome+"/made")
	})
}

// A drop-in may remove a permission that codex's sandbox needs. The doctor reports it,
// and starts no worker for that; a worker whose home is new does not start.
func TestDoctorTriesTheSandboxInsideTheUnit(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.NativeWorker(), "")
		b.Start()
		require.NoError(t, b.WriteFile("/etc/systemd/system/codex-worker@.service.d/strict.conf",
			[]byte("[Service]\nSystemCallFilter=~seccomp\n"), 0o644))
		b.MustRun(t, "systemctl", "daemon-reload")
		b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
		b.Until("ready", bed.Ready)
		remedy := bed.DoctorFinds(b, "sandbox", "SeccompInstall")
		assert.Contains(t, b.MustRun(t, "sh", "-c", strings.Split(remedy, ";")[0]), "SystemCallFilter=~seccomp")

		b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
		page, _, err := b.Run(t.Context(), "codex-proxy", "doctor")
		assert.Error(t, err)
		assert.Contains(t, page, "inside this was not tried: it does not run\n")
		assert.Equal(t, "inactive", b.Properties(bed.WorkerUnit, "ActiveState")["ActiveState"])

		b.MustRun(t, "rm", nativeHome+"/.prepared.json")
		_, _, err = b.Run(t.Context(), "systemctl", "start", bed.WorkerUnit)
		assert.Error(t, err)
		assert.Contains(t, b.UnitJournal(bed.WorkerUnit), "default.toml:1: codex cannot run a "+
			"command in its sandbox (exit status 101): ")
	})
}
