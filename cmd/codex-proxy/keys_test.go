package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/daemon/apikeys"
	"codex-proxy/proxy/auth"
	"codex-proxy/workers/control"
)

func TestKeysCommand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "api-keys")
	keys := func(words ...string) result {
		return try(t, append(append([]string{"keys"}, words...), "--file", file)...)
	}

	assert.Equal(t, result{stderr: apikeys.Keyless(control.Keys{}) + "\n"}, keys("list"), "no file is no key")
	added := keys("add", "alice")
	require.Zero(t, added.status, added.stderr)
	alice := strings.TrimSpace(added.stdout)
	assert.Regexp(t, `^sk-codex-[A-Za-z0-9_-]{43}$`, alice)
	bob := strings.TrimSpace(keys("add", "bob").stdout)
	assert.NotEqual(t, alice, bob)
	assert.Equal(t, "NAME   REQUESTS/MIN  TOKENS/MIN  TOKENS/DAY  CONCURRENT  MODELS  ACCOUNTS  MAY CHOOSE  REMOTES  UNKNOWN  CONSOLE\n"+
		"alice  -             -           -           -           -       -         -           -        -        -\n"+
		"bob    -             -           -           -           -       -         -           -        -        -\n", keys("list").stdout)

	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.Equal(t, []string{"alice", "bob"}, accepted(t, file, alice, bob))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Regexp(t, `^no-key 0{64} # [^\n]*\nalice [0-9a-f]{64}\nbob [0-9a-f]{64}\n$`, string(text), "hashes only")

	again := keys("add", "alice")
	assert.Equal(t, exitFailure, again.status)
	assert.Contains(t, again.stderr, `there is a key "alice" already`)
	assert.Empty(t, again.stdout)

	assert.Equal(t, result{}, keys("revoke", "alice"))
	assert.Equal(t, []string{"", "bob"}, accepted(t, file, alice, bob))
	unknown := keys("revoke", "alice")
	assert.Equal(t, exitFailure, unknown.status)
	assert.Contains(t, unknown.stderr, `there is no key "alice"`)

	for _, words := range [][]string{{}, {"add"}, {"list", "more"}, {"remove", "bob"}, {"open", "bob"}, {"open", "--concurrent=1"}, {"add", "a", "b"}, {"set", "bob"}, {"set"},
		{"list", "--concurrent=1"}, {"revoke", "bob", "--concurrent=1"}, {"add", "x", "--concurrent=many"}, {"add", "x", "--concurrent", "0"}} {
		assert.Equal(t, exitUsage, keys(words...).status, words)
	}
	assert.Equal(t, exitFailure, keys("add", "no spaces").status)

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no temporary files stay behind")
}

// A key that nobody has seen is no success.
func TestKeyThatCannotBeShown(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	var stderr bytes.Buffer
	file := filepath.Join(t.TempDir(), "api-keys")
	assert.Equal(t, exitFailure, run(t.Context(), []string{"keys", "add", "alice", "--file", file}, full, &stderr))
	assert.Contains(t, stderr.String(), `the key "alice" is made, but could not be shown, and nobody has it: write /dev/full: no space left on device; codex-proxy keys revoke alice, and add it again`)
}

// accepted are the names under which the file accepts the keys.
func accepted(t *testing.T, file string, secrets ...string) []string {
	t.Helper()
	_, keys, err := apikeys.File(file).Read()
	require.NoError(t, err)
	var names []string
	for _, secret := range secrets {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		key, _ := keys.Check(r)
		names = append(names, key.Name)
	}
	return names
}

func TestKeysKeepCommentsAndOtherLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	hash := strings.Repeat("ab", 32)
	require.NoError(t, os.WriteFile(file, []byte("# alice: do not touch\nalice "+hash+" # ours\nbob "+hash), 0o644))
	require.Zero(t, try(t, "keys", "--file", file, "add", "carol").status)
	require.Zero(t, try(t, "keys", "revoke", "alice", "--file", file).status)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Regexp(t, `^no-key [^\n]*\n# alice: do not touch\nbob `+hash+`\ncarol [0-9a-f]{64}\n$`, string(text))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode().Perm(), "as it was before")
}

// The service that reads the file can still do so after a change.
func TestKeyFileKeepsItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	file := filepath.Join(t.TempDir(), "api-keys")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chown(file, 4711, 4712))
	require.NoError(t, os.Chmod(file, 0o440))
	require.Zero(t, try(t, "keys", "add", "alice", "--file", file).status)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o440), info.Mode().Perm())
	was := info.Sys().(*syscall.Stat_t)
	assert.Equal(t, []uint32{4711, 4712}, []uint32{was.Uid, was.Gid})
}

// Somebody keeps the file elsewhere.
func TestKeysBehindALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "kept"), filepath.Join(dir, "api-keys")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink("kept", link))
	require.Zero(t, try(t, "keys", "add", "one", "--file", link).status)
	_, keys, err := apikeys.File(file).Read()
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, keys.Names())
	_, err = os.Readlink(link)
	assert.NoError(t, err, "the link is gone")
}

// The settings name another file by now than the running service has read: its keys
// stay in force until it is reloaded.
func TestKeysOfAnotherFile(t *testing.T) {
	dir := shortDir(t)
	old, fresh, socket := filepath.Join(dir, "old"), filepath.Join(dir, "fresh"), filepath.Join(dir, "socket")
	require.Zero(t, try(t, "keys", "add", "old", "--file", old).status)
	s := serving(t, "control_socket="+socket, "api_keys="+old)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	keys := func(o apikeys.Editor, words ...string) result {
		var stdout, stderr strings.Builder
		o.Stdout, o.Stderr = &stdout, &stderr
		require.NoError(t, o.Locate(configured(t, fmt.Sprintf("api_keys = %q\ncontrol_socket = %q\n", fresh, socket))))
		do := map[string]func(context.Context, string) error{"add": o.Add, "apply": o.Apply}[words[0]]
		if err := do(t.Context(), strings.Join(words[1:], "")); err != nil {
			return result{exitFailure, stdout.String(), err.Error()}
		}
		return result{exitOK, stdout.String(), stderr.String()}
	}
	other := "the running service goes by " + old + " and not by " + fresh + ": systemctl reload codex-proxy makes it go by what config.toml names"
	added := keys(apikeys.Editor{}, "add", "new")
	assert.Equal(t, result{exitOK, added.stdout, "The file is changed, but " + other + ".\n"}, added)
	assert.Equal(t, result{exitFailure, "", other}, keys(apikeys.Editor{}, "apply"))
	inForce, err := control.NewClient(socket).Keys(t.Context())
	require.NoError(t, err)
	was, _, err := apikeys.File(old).Read()
	require.NoError(t, err)
	table, err := auth.Parse(bytes.NewReader(was))
	require.NoError(t, err)
	require.Len(t, inForce.Keys, 1)
	inForce.Keys = nil
	assert.Equal(t, control.Keys{Count: 1, Digest: table.Digest(), File: old}, inForce)
	assert.Equal(t, "The running service has taken it over.\n", keys(apikeys.Editor{Socket: socket}, "apply").stderr, "which was asked for")
}

// A reader, such as systemd loading the credential, holds whole files: the old
// one or the new one.
func TestKeyFileIsReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	require.Zero(t, try(t, "keys", "add", "alice", "--file", file).status)
	reader, err := os.Open(file)
	require.NoError(t, err)
	defer reader.Close()
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Zero(t, try(t, "keys", "add", "bob", "--file", file).status)
	held := make([]byte, 4096)
	n, err := reader.Read(held)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(held[:n]))
}

func TestKeyFileThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	require.NoError(t, os.WriteFile(file, []byte("alice sk-codex-oops\n"), 0o600))
	got := try(t, "keys", "add", "bob", "--file", file)
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, file+": line 1:")
	assert.NotContains(t, got.stderr, "oops", "it may be a key")
	assert.Equal(t, exitFailure, try(t, "keys", "add", "bob", "--file", filepath.Join(file, "below")).status)
}

func TestKeyLimits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	keys := func(words ...string) result {
		return try(t, append(append([]string{"keys"}, words...), "--file", file)...)
	}
	require.Zero(t, keys("add", "alice", "--tokens-per-day", "5000", "--models=gpt-5,gpt-5-high").status)
	require.Zero(t, keys("add", "bob").status)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Regexp(t, `\nalice [0-9a-f]{64} tokens-per-day=5000 models=gpt-5,gpt-5-high\nbob [0-9a-f]{64}\n$`, string(text))
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "high\n", "high # the app\n", 1)), 0o600))

	require.Zero(t, keys("set", "alice", "--tokens-per-day=none", "--concurrent=2", "--requests-per-minute=60").status)
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Regexp(t, `\nalice [0-9a-f]{64} requests-per-minute=60 concurrent=2 models=gpt-5,gpt-5-high # the app\nbob `, string(text))
	assert.Equal(t, "NAME   REQUESTS/MIN  TOKENS/MIN  TOKENS/DAY  CONCURRENT  MODELS            ACCOUNTS  MAY CHOOSE  REMOTES  UNKNOWN  CONSOLE\n"+
		"alice  60            -           -           2           gpt-5,gpt-5-high  -         -           -        -        -\n"+
		"bob    -             -           -           -           -                 -         -           -        -        -\n", keys("list").stdout)
	require.Zero(t, keys("set", "bob", "--accounts=work,private", "--choose-account", "--remotes=build,docs:viewer",
		"--unknown-parameters=ignore", "--console=operate").status)
	assert.Regexp(t, `bob +- +- +- +- +- +work,private +yes +build,docs:viewer +ignore +operate\n$`, keys("list").stdout)
	require.Zero(t, keys("set", "bob", "--accounts", "none", "--choose-account=no", "--remotes=none",
		"--unknown-parameters=none", "--console=none").status)
	assert.Contains(t, keys("set", "bob", "--console=read", "--remotes=build,docs:viewer,more").stderr,
		"the key is an owner of build, more, with a shell there; with --remotes=build:viewer,more:viewer it only watches")
	assert.NotContains(t, keys("set", "bob", "--remotes=docs:viewer").stderr, "Warning")
	require.Zero(t, keys("set", "bob", "--remotes=none", "--console=none").status)
	assert.Regexp(t, `bob +- +- +- +- +- +- +- +- +- +-\n$`, keys("list").stdout)

	got := keys("set", "carol", "--concurrent=1")
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, `there is no key "carol"`)
}

// Two commands at a time lose nothing.
func TestKeysAddedAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	var g sync.WaitGroup
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		g.Go(func() { assert.Zero(t, try(t, "keys", "add", name, "--file", file).status) })
	}
	g.Wait()
	_, keys, err := apikeys.File(file).Read()
	require.NoError(t, err)
	assert.ElementsMatch(t, names, keys.Names())
}

// The running service takes a change over, and what it accepts is in force.
func TestKeysOfTheRunningService(t *testing.T) {
	socket := filepath.Join(shortDir(t), "socket")
	file := filepath.Join(t.TempDir(), "api-keys")
	keys := func(words ...string) result {
		return try(t, append(append([]string{"keys"}, words...), "--file", file, "--socket", socket)...)
	}
	got := keys("add", "early")
	assert.Zero(t, got.status)
	assert.Equal(t, "The service does not run, or does not listen on "+socket+"; the change holds from its next start.\n", got.stderr)

	s := serving(t, "control_socket="+socket, "api_keys="+file)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	status := func(key string) int {
		req, err := http.NewRequest(http.MethodGet, s.url+"/v1/models", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	assert.Equal(t, http.StatusOK, status(got.stdout))
	late := keys("add", "late")
	assert.Equal(t, "The running service has taken it over.\n", late.stderr)
	assert.Equal(t, http.StatusOK, status(late.stdout))
	require.Zero(t, keys("revoke", "early").status)
	assert.Equal(t, http.StatusUnauthorized, status(got.stdout))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(text, "# by hand\nhand "+strings.Repeat("ab", 32)+"\n"...), 0o600))
	assert.Equal(t, "The running service has taken it over.\n", keys("apply").stderr)
	s.line(t, `"keys":2`)
	require.Zero(t, keys("revoke", "hand").status)
	assert.Equal(t, http.StatusOK, status(late.stdout))
	assert.Contains(t, keys("open").stderr, "there are keys, without which nobody is let in: codex-proxy keys revoke each of late first")
	assert.Contains(t, keys("revoke", "late").stderr, "taken it over. "+apikeys.Keyless(control.Keys{Closed: true}))
	assert.Equal(t, http.StatusUnauthorized, status(""), "nobody has asked for that")
	assert.Equal(t, apikeys.Keyless(control.Keys{Closed: true})+"\n", keys("list").stderr)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Contains(t, keys("apply").stderr, file+" holds no key, and the running service asks for one; codex-proxy keys add NAME")
	assert.Equal(t, http.StatusUnauthorized, status(""), "an empty file may be a mistake")
	assert.Contains(t, keys("open").stderr, "taken it over. "+apikeys.Keyless(control.Keys{}))
	assert.Equal(t, http.StatusOK, status(""))
	for _, secret := range []string{got.stdout, late.stdout} {
		assert.NotContains(t, s.stderr.String(), strings.TrimSpace(secret))
	}
}

// Beyond the loopback the last key's end opens nothing.
func TestRevokingTheLastKeyOfAnExposedService(t *testing.T) {
	socket := filepath.Join(shortDir(t), "socket")
	file := filepath.Join(t.TempDir(), "api-keys")
	require.Zero(t, try(t, "keys", "add", "only", "--file", file).status)
	s := serving(t, "control_socket="+socket, "api_keys="+file, "listen=0.0.0.0:0")
	got := try(t, "keys", "revoke", "only", "--file", file, "--socket", socket)
	assert.Zero(t, got.status, got.stderr)
	assert.Contains(t, got.stderr, "beyond the loopback one is asked for: nobody is let in")
	resp, err := http.Get(s.url + "/v1/models")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	got = try(t, "keys", "open", "--file", file, "--socket", socket)
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, "other machines can reach the API")
}

// A file without keys opens or closes a service, and commands change that.
func TestKeyFileWithoutKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	hash := strings.Repeat("ab", 32)
	for name, tc := range map[string]struct {
		text    string
		command []string
		open    bool
	}{
		"fresh":                       {"", []string{"apply"}, true},
		"the last is revoked":         {"alice " + hash + "\n", []string{"revoke", "alice"}, false},
		"the last is deleted by hand": {auth.ClosedLine() + "\n", []string{"apply"}, false},
		"opened":                      {"# mine\n" + auth.ClosedLine(), []string{"open"}, true},
		"opened twice":                {"", []string{"open"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, []byte(tc.text), 0o600))
			got := try(t, append(append([]string{"keys"}, tc.command...), "--file", file, "--socket", "/nowhere")...)
			require.Zero(t, got.status, got.stderr)
			_, keys, err := apikeys.File(file).Read()
			require.NoError(t, err)
			assert.Equal(t, tc.open, keys.Open())
			assert.Equal(t, apikeys.Keyless(control.Keys{Closed: !tc.open})+"\n", try(t, "keys", "list", "--file", file).stderr)
		})
	}
}

// A page may use the API with a key, so that one there must be.
func TestPagesNeedAKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-keys")
	settings := configured(t, fmt.Sprintf("api_keys = %q\n\ncors_origins = [\"*\"]\n", file))
	keys := func(words ...string) error {
		o := apikeys.Editor{Socket: "/nowhere", Stdout: io.Discard, Stderr: io.Discard}
		require.NoError(t, o.Locate(settings))
		do := map[string]func(context.Context, string) error{"open": o.Open, "add": o.Add, "revoke": o.Revoke}[words[0]]
		return do(t.Context(), strings.Join(words[1:], ""))
	}
	none := settings + ":3: cors_origins: lets web pages use the API with a key of their own, and there is no key; codex-proxy keys add NAME, or take cors_origins out"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.EqualError(t, keys("open"), none)
	for _, command := range [][]string{{"config", "check"}, {"serve"}} {
		got := try(t, append(command, "--config", settings)...)
		assert.Equal(t, result{status: exitConfig, stderr: "codex-proxy " + strings.Join(command, " ") + ": " + none + "\n"}, got)
	}
	require.NoError(t, keys("add", "one"))
	assert.Zero(t, try(t, "config", "check", "--config", settings).status)
	assert.EqualError(t, keys("revoke", "one"), none)
	_, there, err := apikeys.File(file).Read()
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, there.Names())
	require.NoError(t, keys("add", "two"))
	assert.NoError(t, keys("revoke", "one"), "there is another")
	assert.Zero(t, try(t, "keys", "revoke", "two", "--file", file).status, "as for a file of another service")
	assert.Contains(t, try(t, "config", "check", "--config", settings).stderr, none)
}

// A reload goes by the keys in force, which may be newer than the unit's credential.
func TestReloadForPagesNeedsAKey(t *testing.T) {
	credentials := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	file := filepath.Join(credentials, "api-keys")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	s := process(t)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	socket := filepath.Join(s.dir, "control")
	source := filepath.Join(t.TempDir(), "source") // of the credential
	keys := func(words ...string) {
		t.Helper()
		got := try(t, append(append([]string{"keys"}, words...), "--file", source, "--socket", socket)...)
		require.Zero(t, got.status, got.stderr)
	}
	require.NoError(t, os.WriteFile(s.config, fmt.Appendf(nil, "control_socket = %q\ncors_origins = [\"*\"]\n", socket), 0o644))
	refused := func(why string) {
		t.Helper()
		got := try(t, "reload")
		assert.Equal(t, exitFailure, got.status, why)
		assert.Contains(t, got.stderr, s.config+":2: cors_origins: lets web pages use the API", why)
	}
	refused("none")
	keys("add", "one")
	s.reload(t)
	keys("revoke", "one") // of which these settings know nothing
	refused("the last has gone")
	keys("add", "two")
	s.reload(t)
}
