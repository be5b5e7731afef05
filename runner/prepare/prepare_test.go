package prepare

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/notify"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

const id = "abcdefghijklmno2"

// The users of the tests. The tests run as root.
var daemon, user = owner{61001, 61001}, owner{61002, 61002}

// bed is a Host whose daemon has made the first command of the session.
type bed struct {
	Host
	t        *testing.T
	notifier *notify.Notifier
	passed   chan map[string]*os.File // the files of one Prepare
}

func newBed(t *testing.T) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	top := t.TempDir()
	b := &bed{t: t, passed: make(chan map[string]*os.File, 1), Host: Host{
		StateDir: top + "/state", RuntimeDir: top + "/run", Sessions: top + "/sessions", SessionStates: top + "/homes",
		Workspaces: top + "/workspaces", SystemControl: top + "/control", LogFields: top + "/fields:", Cgroup: top + "/cgroup", Etc: top + "/etc",
		OnHost: func(do func() error) error { return do() },
	}}
	for path, owner := range map[string]owner{
		b.StateDir + "/" + paths.CommandDir(id, 1): daemon, b.RuntimeDir: daemon, b.SessionStates + "/" + id: user,
	} {
		require.NoError(t, os.MkdirAll(path, 0o700))
		require.NoError(t, os.Chown(path, owner.uid, owner.gid))
	}
	require.NoError(t, os.Chown(b.StateDir, daemon.uid, daemon.gid))
	b.write(paths.SessionDir(id)+"/"+paths.Current, "1")
	b.order("")
	b.listenAsSystemd()
	return b
}

// order writes the specification of the first command.
func (b *bed) order(repository string) {
	b.t.Helper()
	text, err := session.Encode(&session.Spec{
		Version: session.Version, Args: []string{"true"}, Timeout: time.Minute, OutputLimit: 1, Slot: 3,
		Repository: repository, Workspace: &session.Workspace{},
	})
	require.NoError(b.t, err)
	b.write(paths.CommandDir(id, 1)+"/"+paths.Spec, string(text))
}

// write writes a file of the daemon.
func (b *bed) write(path, text string) {
	b.t.Helper()
	require.NoError(b.t, writeAs(daemon, filepath.Join(b.StateDir, path), text))
}

func writeAs(user owner, path, text string) error {
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chown(path, user.uid, user.gid))
}

// command is the path of a file of the first command.
func (b *bed) command(name string) string {
	return filepath.Join(b.StateDir, paths.CommandDir(id, 1), name)
}

// listenAsSystemd plays systemd's end of the notify socket.
func (b *bed) listenAsSystemd() {
	b.t.Helper()
	address := filepath.Join(b.t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: address})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	b.t.Setenv("NOTIFY_SOCKET", address)
	b.notifier, err = notify.FromEnv(nil)
	require.NoError(b.t, err)
	go func() {
		for files := map[string]*os.File{}; ; {
			text, control := make([]byte, 256), make([]byte, 256)
			n, c, _, _, err := conn.ReadMsgUnix(text, control)
			if err != nil {
				return
			}
			if name, forgotten := strings.CutPrefix(string(text[:n]), "FDSTOREREMOVE=1\nFDNAME="); forgotten {
				delete(files, name)
				continue
			}
			messages, _ := unix.ParseSocketControlMessage(control[:c])
			fds, _ := unix.ParseUnixRights(&messages[0])
			_, name, _ := strings.Cut(string(text[:n]), "FDNAME=")
			file := os.NewFile(uintptr(fds[0]), name)
			if string(text[:n]) == "BARRIER=1" {
				b.passed <- files
				files = map[string]*os.File{}
				_ = file.Close()
				continue
			}
			files[name] = file
		}
	}()
}

func (b *bed) owner(path string) owner {
	b.t.Helper()
	var st unix.Stat_t
	require.NoError(b.t, unix.Lstat(path, &st))
	return owner{int(st.Uid), int(st.Gid)}
}

func TestPrepare(t *testing.T) {
	b := newBed(t)
	b.write(paths.CommandDir(id, 1)+"/"+paths.Stdin, "input")
	require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
	files := <-b.passed
	assert.Len(t, files, 8)
	spec, err := session.ReadSpec(files[paths.SpecFile])
	require.NoError(t, err)
	assert.Equal(t, []string{"true"}, spec.Args)
	for name, file := range map[string]string{
		paths.OutputFile: paths.Output, paths.IndexFile: paths.Index, paths.ResultFile: paths.Result,
	} {
		_, err := files[name].WriteString(name)
		require.NoError(t, err)
		content, err := os.ReadFile(b.command(file))
		require.NoError(t, err)
		assert.Equal(t, name, string(content))
		assert.Equal(t, daemon, b.owner(b.command(file)))
	}
	listener, err := net.FileListener(files[paths.ControlFile])
	require.NoError(t, err)
	defer listener.Close()
	socket := filepath.Join(b.RuntimeDir, paths.ControlDir(id), paths.ControlSocket)
	assert.Equal(t, daemon, b.owner(socket))
	assert.Equal(t, daemon, b.owner(filepath.Dir(socket)))
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	tree := filepath.Join(b.Workspaces, "3", paths.Tree)
	assert.Equal(t, user, b.owner(tree))
	assert.Equal(t, owner{}, b.owner(filepath.Dir(tree)))
	assert.NoDirExists(t, filepath.Join(filepath.Dir(tree), id), "it was the tree's")
	var system unix.Statfs_t
	require.NoError(t, unix.Statfs(tree, &system))
	if system.Type == unix.EXT4_SUPER_MAGIC {
		for _, dir := range []string{filepath.Dir(tree), b.Workspaces} {
			opened, err := os.Open(dir)
			require.NoError(t, err)
			flags, err := unix.IoctlGetUint32(int(opened.Fd()), unix.FS_IOC_GETFLAGS)
			require.NoError(t, errors.Join(err, opened.Close()))
			assert.NotZero(t, flags&topDir, "what is below %s is apart", dir)
		}
	}
	link, err := os.Readlink(filepath.Join(b.Sessions, id, paths.WorkspaceLink))
	require.NoError(t, err)
	assert.Equal(t, tree, link)
}

func TestACommandRunsOnce(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
	<-b.passed
	require.NoError(t, b.End(id, systemd("success")))
	first, err := os.ReadFile(b.command(paths.Ended))
	require.NoError(t, err)

	assert.ErrorContains(t, b.Prepare(t.Context(), id, b.notifier), "cannot make a file of the command, which runs once")
	assert.ErrorContains(t, b.End(id, systemd("exit-code")), "file exists")
	second, err := os.ReadFile(b.command(paths.Ended))
	require.NoError(t, err)
	assert.Equal(t, string(first), string(second), "the first end stays")
}

// The daemon may be malicious, or another process may have its user.
func TestUntrustedFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	require.NoError(t, os.WriteFile(secret, []byte("root"), 0o600))
	for want, plant := range map[string]func(b *bed) error{
		"cannot find out which command to run": func(b *bed) error {
			return relink(filepath.Join(b.StateDir, paths.SessionDir(id), paths.Current), secret)
		},
		`"../../etc" is not the number of a command`: func(b *bed) error {
			return writeAs(daemon, filepath.Join(b.StateDir, paths.SessionDir(id), paths.Current), "../../etc")
		},
		"is longer than 16 bytes": func(b *bed) error {
			return writeAs(daemon, filepath.Join(b.StateDir, paths.SessionDir(id), paths.Current), strings.Repeat("1", 17))
		},
		"cannot find the specification of the command: open": func(b *bed) error {
			return relink(b.command(paths.Spec), secret)
		},
		"spec.json is no regular file": func(b *bed) error {
			if err := os.Remove(b.command(paths.Spec)); err != nil {
				return err
			}
			return unix.Mkfifo(b.command(paths.Spec), 0o600)
		},
		"spec.json has 2 names": func(b *bed) error {
			return os.Link(b.command(paths.Spec), filepath.Join(b.StateDir, "other"))
		},
		"spec.json belongs to the user 0": func(b *bed) error {
			return os.Chown(b.command(paths.Spec), 0, 0)
		},
		"cannot open the stdin of the command": func(b *bed) error {
			return os.Symlink(secret, b.command(paths.Stdin))
		},
		"cannot make a file of the command": func(b *bed) error {
			return os.Symlink(secret, b.command(paths.Output))
		},
		"cannot find the command": func(b *bed) error {
			dir := filepath.Dir(b.command(paths.Spec))
			if err := os.Rename(dir, dir+"x"); err != nil {
				return err
			}
			return os.Symlink(dir+"x", dir)
		},
		"cannot give its secrets to the session: open": func(b *bed) error {
			b.secrets()
			return relink(filepath.Join(b.RuntimeDir, paths.SecretsDir(id), "TOKEN"), secret)
		},
		"secrets/" + id + ": too many levels": func(b *bed) error {
			b.secrets()
			dir := filepath.Join(b.RuntimeDir, paths.SecretsDir(id))
			return errors.Join(os.RemoveAll(dir), os.Symlink(filepath.Dir(secret), dir))
		},
		"TOKEN has 2 names: one is right": func(b *bed) error {
			b.secrets()
			token := filepath.Join(b.RuntimeDir, paths.SecretsDir(id), "TOKEN")
			return errors.Join(os.Remove(token), os.Link(secret, token))
		},
		"TOKEN is no regular file": func(b *bed) error {
			b.secrets()
			token := filepath.Join(b.RuntimeDir, paths.SecretsDir(id), "TOKEN")
			return errors.Join(os.Remove(token), unix.Mkfifo(token, 0o600))
		},
		"is longer than": func(b *bed) error {
			b.secrets()
			return os.Truncate(filepath.Join(b.RuntimeDir, paths.SecretsDir(id), "TOKEN"), 1<<20+1)
		},
		"has more than 64 credentials": func(b *bed) error {
			b.secrets()
			for i := range 64 {
				if err := writeAs(daemon, filepath.Join(b.RuntimeDir, paths.SecretsDir(id), strconv.Itoa(i)), ""); err != nil {
					return err
				}
			}
			return nil
		},
		"cannot make the control socket": func(b *bed) error {
			if err := os.Mkdir(filepath.Join(b.RuntimeDir, "sessions"), 0o700); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(secret), filepath.Join(b.RuntimeDir, "sessions", id))
		},
	} {
		b := newBed(t)
		require.NoError(t, plant(b), want)
		assert.ErrorContains(t, b.Prepare(t.Context(), id, b.notifier), want)
		assert.Equal(t, owner{}, b.owner(secret))
		content, err := os.ReadFile(secret)
		require.NoError(t, err)
		assert.Equal(t, "root", string(content))
	}
}

func relink(path, to string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Symlink(to, path)
}

func TestForeignIDs(t *testing.T) {
	b := newBed(t)
	for _, id := range []string{"", "../../../etc/passw", "x"} {
		assert.ErrorContains(t, b.Prepare(t.Context(), id, b.notifier), "is no session")
		assert.ErrorContains(t, b.End(id, os.Getenv), "is no session")
	}
}

const repository = "0123456789abcdef"

// TestSlotOfTheSameSession gives all files of a tree to the user that the session has now, links themselves included.
func TestSlotOfTheSameSession(t *testing.T) {
	b := newBed(t)
	b.order(repository)
	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.Mkdir(target, 0o700))
	tree := filepath.Join(b.Workspaces, "3", paths.Tree)
	require.NoError(t, os.MkdirAll(tree+"/deep/er", 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "..", paths.Tenant), []byte(id), 0o600))
	require.NoError(t, os.WriteFile(tree+"/deep/file", nil, 0o000))
	require.NoError(t, os.Symlink(target, tree+"/link"))
	require.NoError(t, unix.Mkfifo(tree+"/fifo", 0o600))
	require.NoError(t, os.Chmod(tree+"/deep", 0o000))
	require.NoError(t, os.Chown(tree, 61003, 61003))
	require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
	for _, name := range []string{"", "/deep", "/deep/er", "/deep/file", "/link", "/fifo"} {
		assert.Equal(t, user, b.owner(tree+name), name)
	}
	assert.Equal(t, owner{}, b.owner(target))
}

// What another session may have open is no part of a workspace, as a session can pass files and directories on.
func TestSlotOfAnotherSession(t *testing.T) {
	for was, is := range map[string]string{"": "", repository: "", "fedcba9876543210": repository, "same": repository} {
		if was == "same" {
			was = is
		}
		b := newBed(t)
		b.order(is)
		slot := filepath.Join(b.Workspaces, "3")
		tree := filepath.Join(slot, paths.Tree)
		require.NoError(t, os.MkdirAll(tree+"/deep", 0o755))
		require.NoError(t, os.Chown(tree, user.uid, user.gid))
		require.NoError(t, os.WriteFile(filepath.Join(slot, paths.SlotRepository), []byte(was), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(slot, paths.Tenant), []byte("bbbbbbbbbbbbbbbb"+paths.Settled), 0o600))
		before, err := os.Stat(tree)
		require.NoError(t, err)
		require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
		after, err := os.Stat(tree)
		require.NoError(t, err)
		assert.False(t, os.SameFile(before, after), "%q then %q", was, is)
		assert.NoDirExists(t, tree+"/deep")
		assert.Equal(t, user, b.owner(tree))
		noted, err := os.ReadFile(filepath.Join(slot, paths.SlotRepository))
		require.NoError(t, err)
		assert.Equal(t, is, string(noted))
		previous := (<-b.passed)[paths.PreviousFile]
		if was == "" || was != is {
			assert.Nil(t, previous, "the files of another repository are of no use")
		} else {
			info, err := previous.Stat()
			require.NoError(t, err)
			assert.True(t, os.SameFile(before, info))
		}
		require.NoError(t, b.End(id, systemd("success")))
		assert.NoDirExists(t, filepath.Join(slot, paths.Previous))
		assert.DirExists(t, tree)
	}
}

// A tree that is deeper than a process may have open files keeps no slot from the next session.
func TestSlotWithADeepTree(t *testing.T) {
	b := newBed(t)
	tree := filepath.Join(b.Workspaces, "3", paths.Tree)
	require.NoError(t, os.MkdirAll(tree, 0o755))
	deepen(t, tree, 2000)
	limit := unix.Rlimit{}
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: limit.Max}))
	t.Cleanup(func() { assert.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) })
	require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
	require.NoError(t, b.End(id, systemd("success")))
	left, err := os.ReadDir(filepath.Dir(tree))
	require.NoError(t, err)
	for _, entry := range left {
		assert.Contains(t, []string{paths.Tree, paths.Tenant, paths.Record, paths.SlotRepository}, entry.Name())
	}
}

// deepen makes a chain of directories in dir.
func deepen(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range levels {
		require.NoError(t, unix.Mkdirat(fd, "d", 0o700))
		below, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = below
	}
	require.NoError(t, unix.Close(fd))
}

// A command takes the workspace as it is only if the main process has made it for the same session.
func TestWorkspaceOfAnotherSession(t *testing.T) {
	b := newBed(t)
	text, err := session.Encode(&session.Spec{
		Version: session.Version, Args: []string{"true"}, Timeout: time.Minute, OutputLimit: 1, Slot: 3,
	})
	require.NoError(t, err)
	next := func(n int) error {
		b.t.Helper()
		b.write(paths.SessionDir(id)+"/"+paths.Current, strconv.Itoa(n))
		return b.Prepare(t.Context(), id, b.notifier)
	}
	for n := range 3 {
		path := paths.CommandDir(id, n+2)
		require.NoError(t, os.Mkdir(filepath.Join(b.StateDir, path), 0o700))
		require.NoError(t, os.Chown(filepath.Join(b.StateDir, path), daemon.uid, daemon.gid))
		b.write(path+"/"+paths.Spec, string(text))
	}
	const refusal = "no workspace was made there for this session"
	require.ErrorContains(t, next(2), refusal, "a new slot")
	require.NoError(t, next(1))
	tenant := (<-b.passed)[paths.TenantFile]
	require.ErrorContains(t, next(3), refusal, "the main process did not come so far")
	_, err = tenant.WriteString(paths.Settled)
	require.NoError(t, err)
	require.NoError(t, next(4))
	assert.NotContains(t, <-b.passed, paths.TenantFile)
}

// After a stop of the host the session has its workspace as it was, if that was made, and no other session was there.
func TestWorkspaceAfterAStopOfTheHost(t *testing.T) {
	for last, kept := range map[string]bool{
		id + paths.OnDisk: true, id + paths.Settled: false, id: false, "bbbbbbbbbbbbbbbb" + paths.OnDisk: false, "": false,
	} {
		b := newBed(t)
		text, err := session.Encode(&session.Spec{
			Version: session.Version, Args: []string{"true"}, Timeout: time.Minute, OutputLimit: 1, Slot: 3,
			Workspace: &session.Workspace{Keep: true},
		})
		require.NoError(t, err)
		b.write(paths.CommandDir(id, 1)+"/"+paths.Spec, string(text))
		b.write(paths.SessionDir(id)+"/"+paths.Patch, "a patch")
		slot := filepath.Join(b.Workspaces, "3")
		require.NoError(t, os.MkdirAll(filepath.Join(slot, paths.Tree, "made"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(slot, paths.Tenant), []byte(last), 0o600))
		require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
		passed := <-b.passed
		if kept {
			assert.NotContains(t, passed, paths.TenantFile)
			assert.NotContains(t, passed, paths.PatchFile, "it was applied")
			assert.Equal(t, user, b.owner(filepath.Join(slot, paths.Tree, "made")))
		} else {
			assert.Contains(t, passed, paths.TenantFile, "the main process makes it")
			assert.Contains(t, passed, paths.PatchFile)
		}
	}
}

// systemd is the environment of ExecStopPost=.
func systemd(result string) func(string) string {
	return func(name string) string {
		return map[string]string{
			"SERVICE_RESULT": result, "EXIT_CODE": "exited", "EXIT_STATUS": "0", "INVOCATION_ID": "i",
		}[name]
	}
}
