package exec

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/notify"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// patience bounds the waits of these tests.
const patience = time.Minute

// bed is a Shim and its files.
type bed struct {
	*Shim
	t   *testing.T
	dir string
}

func newBed(t *testing.T, spec session.Spec) *bed {
	t.Helper()
	dir := t.TempDir()
	spec.Version, spec.Slot = session.Version, 1
	text, err := session.Encode(&spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, paths.Spec), text, 0o600))
	b := &bed{&Shim{Files: map[string]*os.File{}, Workspace: t.TempDir(), Environ: os.Environ()}, t, dir}
	b.Files[paths.SpecFile], err = os.Open(filepath.Join(dir, paths.Spec))
	require.NoError(t, err)
	for name, file := range map[string]string{
		paths.OutputFile: paths.Output, paths.IndexFile: paths.Index, paths.ResultFile: paths.Result,
	} {
		b.Files[name], err = os.Create(filepath.Join(dir, file))
		require.NoError(t, err)
	}
	listener, err := net.Listen("unix", b.socket())
	require.NoError(t, err)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	b.Files[paths.ControlFile], err = listener.(*net.UnixListener).File()
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return b
}

func (b *bed) socket() string { return filepath.Join(b.dir, paths.ControlSocket) }

// shell is the specification of a script.
func shell(script string) session.Spec {
	return session.Spec{Args: []string{"sh", "-c", script}, Timeout: patience, Grace: patience, OutputLimit: 1 << 20}
}

// run runs the command and returns its result and its output.
func (b *bed) run(ctx context.Context) (*session.Result, string) {
	b.t.Helper()
	require.NoError(b.t, b.Run(ctx))
	return b.left()
}

// left returns what a run has left.
func (b *bed) left() (*session.Result, string) {
	b.t.Helper()
	file, err := os.Open(filepath.Join(b.dir, paths.Result))
	require.NoError(b.t, err)
	defer file.Close()
	result, err := session.ReadResult(file)
	require.NoError(b.t, err)
	output, err := os.ReadFile(filepath.Join(b.dir, paths.Output))
	require.NoError(b.t, err)
	assert.EqualValues(b.t, len(output), result.Bytes)
	return result, string(output)
}

func TestEnds(t *testing.T) {
	for script, want := range map[string]session.Result{
		"exit 0":         {Exited: true},
		"exit 3":         {Exited: true, Status: 3},
		"kill -SEGV $$":  {Exited: true, Signal: int(unix.SIGSEGV)},
		"kill -KILL $$":  {Exited: true, Signal: int(unix.SIGKILL)},
		"kill -TERM 0; ": {Exited: true, Signal: int(unix.SIGTERM)},
	} {
		result, _ := newBed(t, shell(script)).run(t.Context())
		assert.Equal(t, want.Exited, result.Exited, script)
		assert.Equal(t, want.Status, result.Status, script)
		assert.Equal(t, want.Signal, result.Signal, script)
		assert.Empty(t, result.Cause, script)
		assert.Nil(t, result.Failure, script)
		assert.False(t, result.Started.After(result.Ended), script)
		assert.Positive(t, result.MaxRSS, script)
	}
}

// The files that a command leaves are kept, also if it is ended.
func TestArtifacts(t *testing.T) {
	spec := shell("mkdir d; echo r > d/r.xml; ln -s /etc/passwd d/passwd.xml; exec yes")
	spec.Artifacts = &session.Artifacts{Patterns: []string{"d", "none"}, Bytes: 100, Count: 9}
	b := newBed(t, spec)
	path := filepath.Join(b.dir, paths.Artifacts)
	var err error
	b.Files[paths.ArtifactsFile], err = os.Create(path)
	require.NoError(t, err)
	result, _ := b.run(t.Context())
	assert.Equal(t, session.OutputLimit, result.Cause)
	assert.Empty(t, result.ArtifactsFault)
	archive, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, `{"path":"d/r.xml","bytes":2}`+"\nr\n", string(archive))

	result, _ = newBed(t, spec).run(t.Context())
	assert.Contains(t, result.ArtifactsFault, "session-prepare has passed no file")
}

// Hooks run where the command does. One before it that fails keeps it from running, one after it knows how it ended.
func TestHooks(t *testing.T) {
	spec := shell("echo command; cat made; exit 3")
	spec.Env = map[string]string{"A": "b"}
	spec.Hooks = &session.Hooks{Timeout: patience}
	spec.Hooks.Before = []string{"sh", "-c", "echo before $A; echo x > made"}
	spec.Hooks.After = []string{"sh", "-c", "echo after $CODEX_OUTCOME $CODEX_EXIT_STATUS; exit 4"}
	result, output := newBed(t, spec).run(t.Context())
	assert.Equal(t, "before b\ncommand\nx\nafter failed 3\n", output)
	assert.Equal(t, 3, result.Status)
	assert.Equal(t, "exit status 4", result.HookFault)

	for after, want := range map[string]int{"true": 1, "": 0} {
		kills, alone := 0, shell("true")
		if after != "" {
			alone.Hooks = &session.Hooks{Timeout: patience, After: []string{after}}
		}
		b := newBed(t, alone)
		b.KillRest = func() { kills++ }
		b.run(t.Context())
		assert.Equal(t, want, kills, "what the command leaves ends before a hook %q", after)
	}

	spec.Hooks.Before = []string{"sh", "-c", "kill -KILL $$"}
	result, output = newBed(t, spec).run(t.Context())
	assert.Empty(t, output)
	assert.Equal(t, &session.Failure{
		Stage: session.HookTask, Text: "the hook before the command failed: signal 9 ([hooks] in runner.toml)",
	}, result.Failure)

	spec.Hooks.Before, spec.Hooks.After = []string{"sleep", "1000"}, nil
	spec.Hooks.Timeout = time.Millisecond
	result, _ = newBed(t, spec).run(t.Context())
	assert.Contains(t, result.Failure.Text, "it ran for longer than 1ms")
}

func TestOutput(t *testing.T) {
	result, output := newBed(t, shell(`printf out; printf err >&2; head -c 300000 /dev/zero`)).run(t.Context())
	assert.Zero(t, result.Status)
	assert.Len(t, output, 300_006)
	assert.Contains(t, output, "out")
	assert.Contains(t, output, "err")
}

// A process that holds the pipes does not delay the result, and the output before the end is whole.
func TestGrandchildHoldsThePipes(t *testing.T) {
	result, output := newBed(t, shell(`sleep 1000 & echo $!; exit 4`)).run(t.Context())
	assert.Equal(t, 4, result.Status)
	assert.Empty(t, result.Cause)
	pid := 0
	for _, digit := range strings.TrimSpace(output) {
		pid = pid*10 + int(digit-'0')
	}
	require.NoError(t, unix.Kill(pid, unix.SIGKILL), "it runs on: systemd kills it")
}

func TestTimeout(t *testing.T) {
	spec := shell("exec sleep 1000")
	spec.Timeout = time.Millisecond
	result, _ := newBed(t, spec).run(t.Context())
	assert.Equal(t, session.TimedOut, result.Cause)
	assert.True(t, result.Exited)
	assert.Equal(t, int(unix.SIGTERM), result.Signal)
}

// A command that ignores SIGTERM is left to systemd after its grace, with its process group killed.
func TestGrace(t *testing.T) {
	spec := shell(`trap "" TERM; echo ready; sleep 1000; sleep 1000`)
	spec.Timeout, spec.Grace = 500*time.Millisecond, time.Millisecond
	result, _ := newBed(t, spec).run(t.Context())
	assert.Equal(t, session.TimedOut, result.Cause)
}

func TestOutputLimit(t *testing.T) {
	spec := shell("exec yes")
	spec.OutputLimit = 10_001
	result, output := newBed(t, spec).run(t.Context())
	assert.Equal(t, session.OutputLimit, result.Cause)
	assert.Len(t, output, 10_001)

	spec = shell("echo 123456; exit 5") // ends before the limit is noticed, or after
	spec.OutputLimit = 3
	result, output = newBed(t, spec).run(t.Context())
	assert.Equal(t, session.OutputLimit, result.Cause)
	assert.Equal(t, "123", output)
}

func TestFileSize(t *testing.T) {
	// The hard limit follows the start of the command.
	spec := shell("trap '' XFSZ; head -c 2000 /dev/zero >file 2>&-; wc -c <file; until [ $(ulimit -H -f) = 2 ]; do :; done; ulimit -H -f")
	spec.FileSize = 1024
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	_, output := newBed(t, spec).run(t.Context())
	assert.Equal(t, "1024\n2\n", output, "the second in blocks of 512 bytes")
	var after unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &after))
	assert.Equal(t, before, after, "this process has its own limit again")
}

func TestScore(t *testing.T) {
	score, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	require.NoError(t, err)
	defer score.Close()
	before, err := os.ReadFile(score.Name())
	require.NoError(t, err)
	b := newBed(t, shell("cat /proc/self/oom_score_adj"))
	b.Score = score
	_, output := b.run(t.Context())
	assert.Equal(t, "500\n", output)
	after, err := os.ReadFile(score.Name())
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
}

func TestEnvironment(t *testing.T) {
	spec := shell("env | grep -v -e ^PWD= -e ^EMAIL= | sort; pwd; cat")
	spec.Directory, spec.Env = "sub", map[string]string{"LANG": "C", "MINE": "x"}
	b := newBed(t, spec)
	require.NoError(t, os.Mkdir(filepath.Join(b.Workspace, "sub"), 0o700))
	b.Environ = []string{"PATH=/usr/bin:/bin", "LANG=de_DE", "NOTIFY_SOCKET=/run/x", "HOME=/h"}
	stdin := filepath.Join(b.dir, paths.Stdin)
	require.NoError(t, os.WriteFile(stdin, []byte("spooled"), 0o600))
	var err error
	b.Files[paths.StdinFile], err = os.Open(stdin)
	require.NoError(t, err)
	_, output := b.run(t.Context())
	assert.Equal(t, "HOME=/h\nLANG=C\nMINE=x\nPATH=/usr/bin:/bin\nTERM=dumb\n"+b.Workspace+"/sub\nspooled",
		strings.Replace(strings.Replace(output, "_=/usr/bin/env\n", "", 1), ":/usr/local/go/bin\n", "\n", 1))
}

func TestSecretsAreHidden(t *testing.T) {
	b := newBed(t, shell("echo a long secret indeed"))
	b.Credentials = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(b.Credentials, "secrets_TOKEN"), []byte("long secret\n"), 0o600))
	_, output := b.run(t.Context())
	assert.Equal(t, "a *** indeed\n", output)
}

func TestNotStarted(t *testing.T) {
	for _, try := range []struct {
		args  []string
		dir   string
		stage session.Stage
		text  string
	}{
		{[]string{"no-such-program"}, "", session.NotFound, "cannot find the program no-such-program in PATH=/nowhere:/usr/bin:/bin:"},
		{[]string{"./none"}, "", session.NotFound, "cannot find the program ./none: "},
		{[]string{"make && make test"}, "", session.NotFound,
			`cannot find the program "make && make test", which is a line for a shell: give it to one`},
		{[]string{"./configure; make"}, "", session.NotFound,
			`cannot find the program "./configure; make", which is a line for a shell: give it to one`},
		{[]string{"./plain"}, "", session.NotExecutable, "cannot start ./plain: "},
		{[]string{"./text"}, "", session.NotExecutable, "cannot start ./text: exec format error"},
		{[]string{"./orphan"}, "", session.NotFound, "cannot start ./orphan: "},
		{[]string{"/"}, "", session.NotExecutable, "cannot start /: "},
		{[]string{"true"}, "missing", session.StartStage, "there is no directory "},
	} {
		spec := shell("")
		spec.Args, spec.Directory = try.args, try.dir
		b := newBed(t, spec)
		b.Environ = []string{"PATH=/nowhere:/usr/bin:/bin"}
		for name, mode := range map[string]os.FileMode{"plain": 0o600, "text": 0o700} {
			require.NoError(t, os.WriteFile(filepath.Join(b.Workspace, name), []byte("text"), mode))
		}
		require.NoError(t, os.WriteFile(filepath.Join(b.Workspace, "orphan"), []byte("#!/no/such/shell\n"), 0o700))
		result, output := b.run(t.Context())
		require.NotNil(t, result.Failure, try.args)
		assert.Equal(t, try.stage, result.Failure.Stage, result.Failure.Text)
		assert.Contains(t, result.Failure.Text, try.text)
		assert.False(t, result.Exited)
		assert.Empty(t, output)
	}
}

// preparation is a Preparation that does what the test wants.
type preparation func(ctx context.Context, launch *Launch) error

func (preparation) Stage() session.Stage { return session.EnvTask }

func (p preparation) Prepare(ctx context.Context, launch *Launch) error { return p(ctx, launch) }

func TestPreparations(t *testing.T) {
	b := newBed(t, shell("echo $ADDED"))
	b.Preparations = []Preparation{preparation(func(_ context.Context, l *Launch) error {
		l.Env = append(l.Env, "ADDED=by the environment")
		return nil
	})}
	_, output := b.run(t.Context())
	assert.Equal(t, "by the environment\n", output)

	b = newBed(t, shell("echo ran"))
	b.Preparations = []Preparation{preparation(func(context.Context, *Launch) error { return errors.New("no uv") })}
	result, output := b.run(t.Context())
	assert.Equal(t, &session.Failure{Stage: session.EnvTask, Text: "no uv"}, result.Failure)
	assert.Empty(t, output)
}

// A workspace that root keeps is not made again.
func TestKeptWorkspace(t *testing.T) {
	for name, want := range map[string]bool{paths.TenantFile: true, "none": false} {
		spec := shell("true")
		spec.Workspace = &session.Workspace{Keep: true}
		b := newBed(t, spec)
		tenant, err := os.Create(filepath.Join(b.dir, "tenant"))
		require.NoError(t, err)
		b.Files[name] = tenant
		b.Preparations = []Preparation{preparation(func(_ context.Context, l *Launch) error {
			assert.Equal(t, want, l.Spec.Workspace != nil, name)
			return nil
		})}
		b.run(t.Context())
	}
}

// Root's note says that the workspace is made only once it has the patch.
func TestSettle(t *testing.T) {
	for note, patched := range map[string]bool{"id": true, "id" + paths.Settled: false} {
		spec := shell("true")
		spec.Workspace = &session.Workspace{}
		b := newBed(t, spec)
		tenant, err := os.Create(filepath.Join(b.dir, "tenant"))
		require.NoError(t, err)
		_, err = tenant.WriteString("id")
		require.NoError(t, err)
		b.Files[paths.TenantFile] = tenant
		p := Patch{}
		if patched {
			p.File = b.Files[paths.SpecFile] // no patch
		}
		b.Preparations = []Preparation{Workspace{}, p, Settle{tenant}}
		result, _ := b.run(t.Context())
		assert.Equal(t, !patched, result.HasSettled(), result.Failure)
		assert.True(t, result.HasWorkspace())
		text, err := os.ReadFile(tenant.Name())
		require.NoError(t, err)
		assert.Equal(t, note, string(text))
	}
}

// Once a command has run for a while, its workspace is on the disk, and root's note says so.
func TestPreserve(t *testing.T) {
	spec := shell("until grep -q ++ tenant; do sleep 0.01; done")
	spec.Workspace = &session.Workspace{}
	b := newBed(t, spec)
	tenant, err := os.Create(filepath.Join(b.Workspace, "tenant"))
	require.NoError(t, err)
	_, err = tenant.WriteString("id" + paths.Settled)
	require.NoError(t, err)
	b.Files[paths.TenantFile], b.Preparations = tenant, nil
	looks := 0
	b.Dirty = func() int64 {
		looks++
		return maxDirty + 2 - int64(looks)
	}
	result, _ := b.run(t.Context())
	assert.Empty(t, result.Failure)
	text, err := os.ReadFile(tenant.Name())
	require.NoError(t, err)
	assert.Equal(t, "id"+paths.OnDisk, string(text))
	assert.Equal(t, 2, looks, "nothing waits for what other programs write")
}

// A host that writes without an end keeps no workspace from the disk for longer than a moment.
func TestPreserveOnABusyHost(t *testing.T) {
	dir := t.TempDir()
	tenant, err := os.Create(filepath.Join(dir, "tenant"))
	require.NoError(t, err)
	defer tenant.Close()
	_, err = tenant.WriteString("id" + paths.Settled)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		s := &Shim{Files: map[string]*os.File{paths.TenantFile: tenant}, Dirty: func() int64 { return maxDirty + 1 }}
		spec := shell("")
		spec.Workspace = &session.Workspace{}
		end := s.preserve(&Launch{Spec: &spec, Dir: dir})
		<-time.After(dirtyBound - time.Second)
		synctest.Wait()
		text, err := os.ReadFile(tenant.Name())
		require.NoError(t, err)
		assert.Equal(t, "id"+paths.Settled, string(text))
		<-time.After(2 * time.Second)
		synctest.Wait()
		end()
	})
	text, err := os.ReadFile(tenant.Name())
	require.NoError(t, err)
	assert.Equal(t, "id"+paths.OnDisk, string(text))
}

// The service manager has READY=1, with which its watchdog begins, before the command can do anything.
func TestReadyPrecedesTheCommand(t *testing.T) {
	spec := shell("")
	spec.Args = []string{"no-such-program"}
	b := newBed(t, spec)
	address := filepath.Join(b.dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: address})
	require.NoError(t, err)
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", address)
	b.Notifier, err = notify.FromEnv(nil)
	require.NoError(t, err)
	b.run(t.Context())
	message := make([]byte, 256)
	n, err := manager.Read(message)
	require.NoError(t, err)
	assert.Equal(t, "READY=1\nSTATUS=Running: no-such-program", string(message[:n]))
}

func TestWithoutFiles(t *testing.T) {
	b := newBed(t, shell("true"))
	delete(b.Files, paths.IndexFile)
	assert.ErrorContains(t, b.Run(t.Context()), `cannot find the inherited file "index": session-prepare passes it`)
}

// A user of people or of another service has processes that are none of the session.
func TestKillRestIsForDynamicUsers(t *testing.T) {
	for uid, want := range map[int]bool{0: false, 999: false, 1000: false, 61183: false, 61184: true, 65519: true, 65520: false, 65534: false} {
		assert.Equal(t, want, dynamic(uid), uid)
	}
}
