package namespaces

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience bounds all waits.
const patience = time.Minute

// someone is a user without privileges, who owns what the tests put up.
const someone = 45678

func TestMain(m *testing.M) {
	switch {
	case os.Getpid() == 1: // of the namespaces
		status, err := Init(os.Args[1], os.Args[3:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 203
		}
		os.Exit(status)
	case len(os.Args) > 3 && os.Args[1] == "keeper":
		os.Exit(keep(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// keep plays remote-exec: it runs args in the namespaces, and answers HTTP requests from there.
func keep(text string, args []string) int {
	var view View
	passage, err := NewPassage()
	if err == nil {
		err = json.Unmarshal([]byte(text), &view)
	}
	if err == nil {
		args, err = view.Args("/proc/self/exe", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr = os.Stdout, os.Stderr, []*os.File{passage.Theirs}, view.Attr()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := errors.Join(cmd.Start(), passage.Theirs.Close(), Keep()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if all, err := passage.Listeners(); err == nil {
		l := all[0]
		go serve(l, "lent")
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// serve answers each request with the words.
func serve(l net.Listener, words string) {
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, words) }))
}

// bed is a machine's part that the tests look at.
type bed struct {
	dir  string // secret/ is hidden, secret/own shown, secret/own/covered covered
	view View
}

func newBed(t *testing.T) bed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can play another user")
	}
	dir, err := os.MkdirTemp("/var/tmp", "namespaces")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for path, text := range map[string]string{
		"secret/other": "SECRET", "secret/own/file": "own", "secret/own/covered/ledger": "SECRET",
	} {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.NoError(t, exec.Command("chown", "-R", fmt.Sprint(someone), dir).Run())
	return bed{dir, View{
		Hidden: []string{filepath.Join(dir, "secret"), filepath.Join(dir, "none")},
		Dir:    filepath.Join(dir, "secret/own"),
		Shown:  []string{filepath.Join(dir, "secret/own")}, Covered: []string{filepath.Join(dir, "secret/own/covered")},
	}}
}

// command is one that runs in the namespaces, as someone.
func (b bed) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(b.view)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"keeper", string(text)}, args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), "OURS=SECRET", "GORACE=atexit_sleep_ms=0"), b.view.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someone, Gid: someone}}
	return cmd
}

func (b bed) shell(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := b.command(t, append([]string{"/bin/sh", "-c", script, "sh"}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// Nothing of others can be read in the namespaces, although all of it belongs to the same user.
func TestHidden(t *testing.T) {
	b := newBed(t)
	neighbour := exec.Command("/bin/sleep", "60")
	neighbour.Env = []string{"NEIGHBOUR=SECRET"}
	neighbour.Dir = filepath.Join(b.dir, "secret")
	neighbour.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someone, Gid: someone}}
	require.NoError(t, neighbour.Start())
	defer func() { _ = neighbour.Process.Kill(); _ = neighbour.Wait() }()
	shared := filepath.Join("/dev/shm", filepath.Base(b.dir))
	require.NoError(t, os.WriteFile(shared, []byte("SECRET"), 0o644))
	defer os.Remove(shared)
	for name, script := range map[string]string{
		"a file":             `cat $1/secret/other`,
		"another way":        `cat $1/secret/own/../other`,
		"from where it is":   `pwd -P | grep -v secret/own; cat ../other ../../secret/other`,
		"the turn journal":   `cat $1/secret/own/covered/*`,
		"its environment":    `cat /proc/$2/environ`,
		"its root":           `cat /proc/$2/root$1/secret/other`,
		"its directory":      `cat /proc/$2/cwd/other`,
		"to signal it":       `kill -0 $2 && echo SECRET`,
		"of any process":     `grep -z SECRET /proc/[0-9]*/environ | grep NEIGHBOUR`,
		"the main process":   `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline | grep 'exe keepe[r]'; done`,
		"of init":            `cat /proc/1/environ /proc/1/root$1/secret/other`,
		"init's memory":      `head -c1 /proc/1/mem && echo SECRET`,
		"init's files":       `ls /proc/1/fd/* && echo SECRET`,
		"shared memory":      `cat $3`,
		"a terminal":         `ls /dev/pts | grep -v ptmx`,
		"below the cover":    `unshare -Urm sh -c 'umount $1/secret; cat $1/secret/other' sh $1`,
		"below all":          `unshare -Urm sh -c 'umount -l $1/secret/own $1/secret /dev/shm /proc; cat $1/secret/other $2' sh $1 $3`,
		"by a mount of /":    `unshare -Urm sh -c 'mkdir -p /tmp/x$$ && mount --bind / /tmp/x$$ && cat /tmp/x$$$1/secret/other' sh $1`,
		"a right":            `grep -E 'Cap(Inh|Prm|Eff|Amb):.*[1-9a-f]' /proc/self/status && echo SECRET`,
		"a right of init":    `grep -E 'Cap(Inh|Prm|Eff|Amb):.*[1-9a-f]' /proc/1/task/*/status && echo SECRET`,
		"privileges to gain": `grep 'NoNewPrivs:.*0' /proc/self/status && echo SECRET`,
	} {
		t.Run(name, func(t *testing.T) {
			seen := b.shell(t, "{ "+script+"; } 2>/dev/null; true", b.dir, fmt.Sprint(neighbour.Process.Pid), shared)
			assert.Empty(t, seen)
		})
	}
	assert.Equal(t, "own", b.shell(t, "cat $1/secret/own/file; touch $1/secret/own/made", b.dir))
	assert.FileExists(t, filepath.Join(b.dir, "secret/own/made"))
	assert.NotEmpty(t, b.shell(t, `cat /proc/self/status; [ "$(id -u)" = 45678 ] && [ -w /dev/shm ] && echo x >/dev/shm/x`))
}

// A directory that a link leads to is hidden, too; a link in place of a covered one prevents the start.
func TestLinks(t *testing.T) {
	b := newBed(t)
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "real"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "real/file"), []byte("SECRET"), 0o644))
	require.NoError(t, os.Symlink("real", filepath.Join(b.dir, "link")))
	b.view.Hidden = append(b.view.Hidden, filepath.Join(b.dir, "link"))
	assert.Empty(t, b.shell(t, `cat $1/link/file $1/real/file 2>/dev/null; true`, b.dir))
	covered := b.view.Covered[0]
	require.NoError(t, os.Rename(covered, covered+".old"))
	require.NoError(t, os.Symlink(covered+".old", covered))
	out, err := b.command(t, "/bin/true").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "cannot cover "+covered+": it is no directory")
}

// A directory that the user cannot reach needs no cover.
func TestUnreachable(t *testing.T) {
	b := newBed(t)
	require.NoError(t, os.MkdirAll(filepath.Join(b.dir, "closed/deep"), 0o700))
	b.view.Hidden = append(b.view.Hidden, filepath.Join(b.dir, "closed/deep"))
	assert.Equal(t, "ok", b.shell(t, `cat $1/closed/deep 2>/dev/null; echo ok`, b.dir))
}

// A pinned file has its content in the namespaces alone, and nobody there changes it. Its neighbours stay.
func TestPinned(t *testing.T) {
	b := newBed(t)
	etc := filepath.Join(b.dir, "etc")
	require.NoError(t, os.MkdirAll(filepath.Join(etc, "more"), 0o777))
	for name, text := range map[string]string{"a": "neighbour", "b": "before", "more/c": "below"} {
		require.NoError(t, os.WriteFile(filepath.Join(etc, name), []byte(text), 0o666))
	}
	b.view.Pinned = map[string]string{filepath.Join(etc, "b"): "pinned", filepath.Join(etc, "more/new"): "made"}
	assert.Equal(t, "neighbour pinned below made", b.shell(t, `cd $1; echo $(cat a) $(cat b) $(cat more/c) $(cat more/new)`, etc))
	assert.Equal(t, "pinned", b.shell(t, `cd $1; { echo x >b; rm -f b; mv a b; umount $1; } 2>/dev/null; cat b`, etc))
	text, err := os.ReadFile(filepath.Join(etc, "b"))
	require.NoError(t, err)
	assert.Equal(t, "before", string(text))
	b.view.Pinned = map[string]string{filepath.Join(b.dir, "none/b"): ""}
	out, err := b.command(t, "/bin/true").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "none: no such file or directory: make the directory")
}

// With a network and without one, the server of the manager can be reached; without one, nothing else.
func TestNetwork(t *testing.T) {
	b := newBed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go serve(l, "neighbour")
	for _, offline := range []bool{false, true} {
		b.view.Offline = offline
		get := `exec 3<>/dev/tcp/127.0.0.1/$1 && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && tail -n1 <&3`
		ask := func(port string) string {
			out, _ := b.command(t, "/bin/bash", "-c", get, "bash", port).Output()
			return string(out)
		}
		assert.Equal(t, "lent", ask(ModelPort))
		assert.Equal(t, offline, ask(fmt.Sprint(l.Addr().(*net.TCPAddr).Port)) != "neighbour")
	}
}

func TestEnds(t *testing.T) {
	b := newBed(t)
	for script, status := range map[string]int{
		"exit 7": 7, "kill -9 $$": 128 + 9, "kill -TERM $$": 128 + 15,
		"sleep 60 & exit 0": 0, // it ends with the namespaces
	} {
		cmd := b.command(t, "/bin/sh", "-c", script)
		_ = cmd.Run()
		assert.Equal(t, status, cmd.ProcessState.ExitCode(), script)
	}
	out, err := b.command(t, "/nowhere").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), `cannot start "/nowhere": no such file or directory`)
}

// Init collects the processes whose parents have ended.
func TestOrphansAreCollected(t *testing.T) {
	b := newBed(t)
	zombies := b.shell(t, `(sh -c 'sleep 0.05' & ) ; (sh -c 'exit 0' &); sleep 0.3; grep -l '^State:.Z' /proc/[0-9]*/status; true`)
	assert.Empty(t, zombies)
}

// kill -9 of the manager ends all that runs in the namespaces.
func TestEndOfTheManager(t *testing.T) {
	b := newBed(t)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	cmd := b.command(t, "/bin/sh", "-c", "setsid sleep 61 & echo up; wait")
	cmd.Stdout = in
	require.NoError(t, cmd.Start())
	require.NoError(t, in.Close())
	_, err = out.Read(make([]byte, 8))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NoError(t, out.SetReadDeadline(time.Now().Add(patience)))
	rest, err := io.ReadAll(out) // ends when the last process has closed it
	require.NoError(t, err)
	assert.Empty(t, bytes.TrimSpace(rest))
}

func TestInitNeedsNamespaces(t *testing.T) {
	_, err := Init("{}", []string{"/bin/true"})
	assert.ErrorContains(t, err, "a command for remote-exec")
}
