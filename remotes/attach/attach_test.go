package attach

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/reach"
	"codex-proxy/units"
)

// fake is a program that says it is that codex, prints its arguments, and ends with status 7.
func (b *bed) fake(version string) string {
	b.t.Helper()
	path := filepath.Join(b.sockets, "codex-"+version)
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo codex-cli " + version + "; else echo \"$@\"; exit 7; fi\n"
	require.NoError(b.t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

func (b *bed) run(a Attach) (status int, out, talk string, err error) {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	a.Sockets, a.Stdin, a.Stdout, a.Stderr = b.sockets, strings.NewReader(""), &stdout, &stderr
	if a.Codex == "" {
		a.Codex = b.fake("0.169.0")
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	status, err = a.Run(ctx)
	return status, strings.ReplaceAll(stdout.String(), b.sockets, ""), stderr.String(), err
}

func TestWordsOfCodex(t *testing.T) {
	b := newBed(t)
	b.serve("/nonexistent/codex.sock")
	for _, c := range []struct {
		last string
		a    Attach
		want string
	}{
		{"", Attach{}, "--remote unix:///build.sock"},
		{"", Attach{Remote: "build", Args: []string{"hello"}}, "--remote unix:///build.sock hello"},
		{"th-1", Attach{}, "resume th-1 --remote unix:///build.sock"},
		{"th-1", Attach{New: true}, "--remote unix:///build.sock"},
		{"th-1", Attach{Thread: "name"}, "resume id-of-name --remote unix:///build.sock"},
		{"th-1", Attach{ReadOnly: true}, "resume th-1 --remote unix:///build.viewer.sock"},
	} {
		b.last(c.last)
		status, out, talk, err := b.run(c.a)
		require.NoError(t, err)
		assert.Equal(t, 7, status)
		assert.Equal(t, c.want+"\n", out)
		assert.Empty(t, talk)
	}
	for _, last := range []string{"-cnotify=[\"reboot\"]", "--config=x", " th", "th\x1b[2J", "a/b"} {
		b.last(last)
		_, out, _, err := b.run(Attach{})
		require.ErrorContains(t, err, "which is no id: codex-proxy attach --new build")
		assert.Empty(t, out, "a remote puts no option into the command line of a person")
	}
	b.last("")
	_, _, _, err := b.run(Attach{ReadOnly: true})
	assert.EqualError(t, err, "there is nothing to watch yet: the remote build has no thread: codex-proxy attach build begins one")
	_, _, _, err = b.run(Attach{ReadOnly: true, New: true})
	assert.ErrorContains(t, err, "leave out")
}

func TestMistakesHaveRemedies(t *testing.T) {
	b := newBed(t)
	_, _, _, err := b.run(Attach{})
	assert.ErrorContains(t, err, "codex-proxy remotes add NAME")
	b.serve("/nonexistent/codex.sock")
	_, _, _, err = b.run(Attach{Remote: "biuld"})
	assert.ErrorContains(t, err, "did you mean build?")
	_, _, _, err = b.run(Attach{Remote: "../etc"})
	assert.Error(t, err)
	_, _, _, err = b.run(Attach{Codex: b.fake("0.168.9")})
	assert.ErrorContains(t, err, "codex 0.168.9")
	assert.ErrorContains(t, err, "0.169.0 or newer: npm install -g @openai/codex@latest")
	_, _, _, err = b.run(Attach{Codex: "/nonexistent/codex"})
	assert.ErrorContains(t, err, "npm install")
	_, _, _, err = b.run(Attach{Codex: "/bin/true"})
	assert.ErrorContains(t, err, "no codex")

	l, err := net.Listen("unix", filepath.Join(b.sockets, "other.sock"))
	require.NoError(t, err)
	defer l.Close()
	_, _, _, err = b.run(Attach{})
	assert.ErrorContains(t, err, "name one of build, other")
}

func TestRefused(t *testing.T) {
	me := reach.UserName(uint32(os.Geteuid()))
	socket := filepath.Join(t.TempDir(), "build.sock")
	require.NoError(t, os.WriteFile(socket, nil, 0o600))
	for ids, want := range map[[2]int]string{
		{1, 0}: reach.UserName(1) + " may. To let " + me + " in, root sets group in /etc/codex-proxy/remotes/build.toml, then: " +
			"systemctl daemon-reload && systemctl restart codex-remote@build.socket codex-remote@build.service; " + me +
			" must be in that group",
		{1, 2}: reach.UserName(1) + " and the members of " + reach.GroupName(2) + " may. The way in: usermod -aG " + reach.GroupName(2) + " " +
			me + ", by root, and a new login",
	} {
		if err := os.Chown(socket, ids[0], ids[1]); err != nil {
			t.Skip("needs root: ", err)
		}
		assert.EqualError(t, Refused("build", socket), me+" may not attach to the remote build: "+want)
	}
	assert.EqualError(t, Refused("build", socket+".none"), me+" may not attach to the remote build")
}

func TestAnotherVersion(t *testing.T) {
	b := newBed(t)
	b.serve("/nonexistent/codex.sock")
	for text, want := range map[string]string{
		"":                         "",
		"codex 0.169.7, 2 threads": "",
		"codex 0.170.1, 2 threads": "This is codex 0.169.0, and the remote build runs codex 0.170.1. If something fails: " +
			"npm install -g @openai/codex@0.170.1\n",
	} {
		b.status.Codex = text
		_, _, talk, err := b.run(Attach{})
		require.NoError(t, err)
		assert.Equal(t, want, talk)
	}
}

// The version of a codex from npm is known without a start of node, or of a program of 200 MB.
func TestVersionOfThePackage(t *testing.T) {
	for _, program := range []string{"bin/codex.js", "vendor/x86_64-unknown-linux-musl/bin/codex"} {
		dir := filepath.Join(t.TempDir(), "node_modules", "@openai", "codex")
		script := filepath.Join(dir, program)
		require.NoError(t, os.MkdirAll(filepath.Dir(script), 0o700))
		require.NoError(t, os.WriteFile(script, []byte("#!/bin/false\n"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"),
			[]byte(`{"name":"@openai/codex","version":"0.154.2-linux-x64"}`), 0o600))
		link := filepath.Join(t.TempDir(), "codex")
		require.NoError(t, os.Symlink(script, link))
		v, err := versionOf(t.Context(), link)
		require.NoError(t, err, program)
		assert.Equal(t, version{0, 154, 2}, v)
	}
}

// A remote that starts is waited for, with a line; one that has failed is not.
func TestAwait(t *testing.T) {
	b := newBed(t)
	b.slow = make(chan struct{})
	b.serve("/nonexistent/codex.sock")
	asked := make(chan struct{}, 10)
	describe := func(context.Context, string) (units.Description, error) {
		asked <- struct{}{}
		return units.Description{State: units.State{ActiveState: "activating", StatusText: "Starting: codex"}}, nil
	}
	go func() { <-asked; close(b.slow) }()
	status, _, talk, err := b.run(Attach{Describe: describe})
	require.NoError(t, err)
	assert.Equal(t, 7, status)
	assert.Equal(t, "build: Starting: codex (0 s)\n", talk)

	b = newBed(t)
	l, err := net.Listen("unix", filepath.Join(b.sockets, "build.sock")) // nobody accepts
	require.NoError(t, err)
	defer l.Close()
	_, _, _, err = b.run(Attach{Describe: func(_ context.Context, unit string) (units.Description, error) {
		assert.Equal(t, "codex-remote@build.service", unit)
		return units.Description{State: units.State{ActiveState: "failed", StatusText: "Not started: no such directory"}}, nil
	}})
	assert.EqualError(t, err, "the remote build does not start: no such directory\n"+
		"After a change of its file: codex-proxy remotes check build && systemctl daemon-reload")

	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	_, _, _, err = b.run(Attach{})
	assert.ErrorContains(t, err, "systemctl reset-failed codex-remote@build.service codex-remote@build.socket && "+
		"systemctl start codex-remote@build.socket")
}

// --stdio: JSONL as an editor speaks it to codex app-server, to the real one.
func TestStdio(t *testing.T) {
	b := newBed(t)
	_, socket := b.codex()
	b.serve(socket)
	require.NoError(t, b.model.Always("gpt-5.5", "text hello editor"))
	in, typed := io.Pipe()
	printed, out := io.Pipe()
	a := Attach{Remote: "build", Sockets: b.sockets, Stdio: true, Stdin: in, Stdout: out, Stderr: io.Discard}
	ended := make(chan error, 1)
	go func() {
		_, err := a.Run(t.Context())
		_ = out.CloseWithError(errors.New("attach has ended"))
		ended <- err
	}()
	lines := bufio.NewReader(printed)
	until := func(part string) string {
		for {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			if strings.Contains(line, part) {
				return line
			}
		}
	}
	say := func(format string, args ...any) {
		_, err := fmt.Fprintf(typed, format+"\n", args...)
		require.NoError(t, err)
	}
	say(`{"id":0,"method":"initialize","params":{"clientInfo":{"name":"editor","version":"1"}}}`)
	until(`{"id":0,"result"`)
	say(`{"method":"initialized"}`)
	say(``)
	say(`{"id":1,"method":"thread/start","params":{}}`)
	_, rest, _ := strings.Cut(until(`{"id":1,"result"`), `"thread":{"id":"`)
	thread, _, _ := strings.Cut(rest, `"`)
	say(`{"id":2,"method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":%q}]}}`, thread,
		strings.Repeat("long ", 200_000)) // of 1 MB, in fragments
	until("hello editor")
	until("turn/completed")
	say(`{"id":3,"method":"account/logout"}`)
	assert.Contains(t, until(`"id":3`), "login of a remote")
	require.NoError(t, typed.Close())
	select {
	case err := <-ended:
		assert.NoError(t, err)
	case <-time.After(bound):
		t.Fatal("it does not end with its standard input")
	}
}
