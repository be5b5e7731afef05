package remotescli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/listing"
	"codex-proxy/probes"
	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// bed is a machine with a systemd and without remotes.
type bed struct {
	*Remotes
	systemd        *unitstest.Systemd
	stdout, stderr bytes.Buffer
	work           string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("/srv", "remotes")
	if err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bed{systemd: unitstest.Start(t).Systemd, work: filepath.Join(dir, "work")}
	b.Remotes = &Remotes{
		Systemd: units.NewManager(),
		Places: Places{
			Settings: filepath.Join(dir, "etc"), Template: "../../packaging/remotes/template.toml",
			Homes: filepath.Join(dir, "homes"), PrivateHomes: filepath.Join(dir, "private"),
			Units:  filepath.Join(dir, "units"),
			Socket: func(name string) string { return filepath.Join(dir, name+".sock") },
		},
		Stdout: &b.stdout, Stderr: &b.stderr,
	}
	t.Cleanup(b.Systemd.Close)
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, made := range []string{b.Settings, b.work} {
		require.NoError(t, os.Mkdir(made, 0o755))
	}
	return b
}

func (b *bed) lines() []string {
	return strings.Split(strings.TrimSuffix(b.stderr.String(), "\n"), "\n")
}

// add makes a remote whose user is that of the tests.
func (b *bed) add(t *testing.T, name string) {
	t.Helper()
	b.systemd.Unit(units.RemoteSocket(name))
	b.With = Answers{Directory: b.work, User: "nobody", Network: "none", Model: "m$1", CodexPath: "/usr/bin/none"}
	require.NoError(t, b.Add(t.Context(), name))
}

func TestAdd(t *testing.T) {
	b := newBed(t)
	b.add(t, "build")
	s, err := remoteconfig.Load(b.fileOf("build"))
	require.NoError(t, err)
	assert.Equal(t, []any{b.work, "nobody", "", remoteconfig.NoNetwork, "m$1", "/usr/bin/none"},
		[]any{s.Directory, s.User, s.Group, s.Network, s.Model, s.CodexPath})
	assert.Nil(t, s.Provider, "accounts serve it")
	text, err := os.ReadFile(b.fileOf("build"))
	require.NoError(t, err)
	assert.NotRegexp(t, `\bNAME\b`, string(text))
	for call, times := range map[string]int{"Reload": 1, "EnableUnitFiles": 1, "StartUnit": 1} {
		assert.GreaterOrEqual(t, b.systemd.Calls(call), times, call)
	}
	lines := b.lines()
	assert.Equal(t, "The remote build is made: "+b.fileOf("build")+", codex-remote@build.service.", lines[0])
	assert.Equal(t, "Before it can start: directory: the user has no permission for "+b.work+
		": the user is nobody; give it the permission, or name another user", lines[1])
	assert.Contains(t, lines[2], "Before it can start: codex_path: ")
	assert.Equal(t, "Then: codex-proxy remotes check build && systemctl daemon-reload && codex-proxy attach build", lines[3])

	assert.EqualError(t, b.Add(t.Context(), "build"), `there is a remote "build" already: `+b.fileOf("build"))
}

func TestAddWithAProvider(t *testing.T) {
	b := newBed(t)
	b.systemd.Unit(units.RemoteSocket("build"))
	b.With = Answers{Directory: b.work, User: "nobody", Model: "m", BaseURL: "http://h/v1", KeyFile: "/etc/key"}
	require.NoError(t, b.Add(t.Context(), "build"))
	s, err := remoteconfig.Load(b.fileOf("build"))
	require.NoError(t, err)
	assert.Equal(t, &remoteconfig.Provider{Name: "local", BaseURL: "http://h/v1", KeyFile: "/etc/key"}, s.Provider)
}

// What the command line says wrong makes no file.
func TestAddNonsense(t *testing.T) {
	b := newBed(t)
	for want, with := range map[string]Answers{
		`directory: "here" is not an absolute path`:                          {Directory: "here"},
		`user: a remote does not run as root`:                                {Directory: b.work, User: "root"},
		`user: there is no user "nobodyknows": make it, or leave user empty`: {Directory: b.work, User: "nobodyknows"},
		`group: there is no group "nogroupknown": make it`:                   {Directory: b.work, Group: "nogroupknown"},
		`network: "lan" is unknown`:                                          {Directory: b.work, Network: "lan"},
		`has the control character`:                                          {Directory: b.work + "\n"},
		`provider.base_url: "x" is not an http(s) URL`:                       {Directory: b.work, Model: "m", BaseURL: "x"},
		`provider.key_file: "key" is not an absolute pa`:                     {Directory: b.work, Model: "m", BaseURL: "http://h", KeyFile: "key"},
		`--key-file has the key of --base-url: give both`:                    {Directory: b.work, KeyFile: "/key"},
		`model: is missing: name the model`:                                  {Directory: b.work, BaseURL: "http://h"},
		`--ca-file is of --hands URL`:                                        {Hands: HandsAnswers{By: "runner", Repo: b.work, CAFile: "/ca"}},
	} {
		b.With = with
		assert.ErrorContains(t, b.Add(t.Context(), "build"), want)
	}
	assert.NoFileExists(t, b.fileOf("build"))
}

func TestCheck(t *testing.T) {
	b := newBed(t)
	b.add(t, "build")
	b.stderr.Reset()
	err := b.Check(t.Context(), "build")
	assert.EqualError(t, err, "codex-remote@build.service cannot start")
	assert.Contains(t, b.stdout.String(), "build.toml is valid.")
	assert.Regexp(t, `(?m)^network +none, only the model$`, b.stdout.String())
	assert.Contains(t, b.stderr.String(), "fault: directory: ")
	assert.ErrorContains(t, b.Check(t.Context(), "other"), "there is no such file: `codex-proxy remotes add` makes one")
}

func TestListAndRemove(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.List(t.Context(), ""))
	assert.Equal(t, "There are no remotes; codex-proxy remotes add makes one.\n", b.stdout.String())
	b.add(t, "build")
	require.NoError(t, os.WriteFile(b.fileOf("bad"), []byte("x = 1"), 0o644))
	b.stdout.Reset()
	b.JSON = true
	require.NoError(t, b.List(t.Context(), ""))
	var l list
	require.NoError(t, json.Unmarshal(b.stdout.Bytes(), &l))
	require.Len(t, l.Remotes, 2)
	assert.Contains(t, l.Remotes[0].Error, `bad.toml:1: unknown key "x"`)
	assert.Equal(t, []string{"build", "codex-remote@build.service", b.work, "nobody"},
		[]string{l.Remotes[1].Name, l.Remotes[1].Unit, l.Remotes[1].Directory, l.Remotes[1].User})

	home := filepath.Join(b.PrivateHomes, "build")
	require.NoError(t, os.MkdirAll(home, 0o700))
	var sockets []string
	for _, name := range []string{"build", "build.viewer", "build.network"} {
		sockets = append(sockets, b.Socket(name))
	}
	for _, path := range sockets { // systemd leaves them
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	said := []string{"The remote build is removed.",
		"Its threads stay: " + filepath.Join(b.Homes, "build") + " (--purge removes them)"}
	dropIns := b.dropInsOf("build")
	require.Len(t, dropIns, 5, "each unit has some")
	for _, dir := range dropIns {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		said = append(said, "The drop-ins of systemctl edit stay: "+dir+" (--purge removes them)")
	}
	b.stderr.Reset()
	require.NoError(t, b.Remove(t.Context(), "build"))
	for _, path := range sockets {
		assert.NoFileExists(t, path)
	}
	assert.Equal(t, said, b.lines())
	assert.NoFileExists(t, b.fileOf("build"))
	assert.EqualError(t, b.Remove(t.Context(), "build"),
		`there is no remote "build"; codex-proxy remotes list shows what there is`)
	b.Purge = true
	require.NoError(t, b.Remove(t.Context(), "build"), "what an earlier removal has left")
	assert.NoDirExists(t, home)
	for _, dir := range dropIns {
		assert.NoDirExists(t, dir)
	}
}

// A remote that runs is asked, by its socket; a message goes the same way.
func TestSend(t *testing.T) {
	b := newBed(t)
	b.add(t, "build")
	l, err := net.Listen("unix", b.Socket("build"))
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /keeper/send", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Thread, Text string }
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		_ = json.NewEncoder(w).Encode(map[string]string{"thread": body.Thread + body.Text})
	})
	mux.HandleFunc("POST /keeper/continue", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "no turn waits"})
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	b.stdout.Reset()
	b.Thread = "t"
	require.NoError(t, b.Send(t.Context(), "build", "hello"))
	assert.Equal(t, "thello\n", b.stdout.String())
	assert.ErrorContains(t, b.Send(t.Context(), "other", "hello"), `there is no remote "other"`)
	assert.EqualError(t, b.Continue(t.Context(), "build"), "no turn waits")
	assert.ErrorContains(t, b.Continue(t.Context(), "other"), `there is no remote "other"`)
}

func TestTable(t *testing.T) {
	now := time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	l := list{Remotes: []row{
		{Name: "a", Unit: "codex-remote@a.service", ActiveState: "active", SubState: "running", Reason: probes.RemoteReady, Since: ago(time.Hour),
			Restarts: 2, Directory: "/srv/a", User: "alice", Status: remotes.Status{
				Attached: []remotes.Client{{User: "alice"}, {User: "bob", Viewer: true}},
				Turns:    []remotes.Turn{{Since: ago(time.Minute)}, {WaitingSince: ago(2 * time.Minute)}, {Cut: true}},
				Words:    "done\x1b[2J", Continued: 1, Unknown: []string{"thread/new/list", "x/do"},
			}},
		{Name: "b", Unit: "codex-remote@b.service", ActiveState: "inactive", SubState: "dead", Reason: probes.RemoteAsleep, Listening: true, User: "cr-b",
			Status: remotes.Status{Turns: []remotes.Turn{{Since: ago(time.Minute)}}}},
		{Name: "c", Unit: "codex-remote@c.service", ActiveState: "failed", SubState: "failed", Reason: probes.RemoteInvalid,
			StatusText: "Not started: c.toml:1: x"},
		{Name: "d", Unit: "codex-remote@d.service", ActiveState: "inactive", SubState: "dead", Reason: probes.RemoteAsleep, Since: ago(time.Hour)},
		{Name: "e", Unit: "codex-remote@e.service", ActiveState: "activating", SubState: "auto-restart", Reason: probes.RemoteBackingOff},
	}}
	var out bytes.Buffer
	require.NoError(t, writeList(listing.Paper{Width: 100}, &out, l, now))
	assert.Equal(t, `a  works since 14:00, 1h0m
  attached  alice, bob (viewer)
  turns     one was cut: it goes on when a person says so; runs since 1m; waits for a person since 2m
  words     done[2J
  unknown   thread/new/list, x/do: refused, for this codex-proxy does not know these requests
  restarts  2; 1 turn went on
  directory /srv/a
  user      alice
  unit      codex-remote@a.service, active (running)

b  asleep; an attach starts it
  turns     one was cut: the next start goes on with it
  user      cr-b
  unit      codex-remote@b.service, inactive (dead)

c  invalid
  why       Not started: c.toml:1: x
  unit      codex-remote@c.service, failed (failed)

d  closed since 14:00, 1h0m; systemctl start codex-remote@d.socket opens it
  unit      codex-remote@d.service, inactive (dead)

e  backing_off
  unit      codex-remote@e.service, activating (auto-restart)
`, out.String())
}

// systemd gets no units for more files: the list shows the others, and says so.
func TestListOfMoreFilesThanMayBe(t *testing.T) {
	b := newBed(t)
	for i := range remoteconfig.MaxFiles + 2 {
		require.NoError(t, os.WriteFile(b.fileOf(fmt.Sprintf("r%03d", i)), []byte("no = settings\n"), 0o644))
	}
	l, err := b.collect(t.Context())
	require.NoError(t, err)
	require.Len(t, l.Remotes, remoteconfig.MaxFiles)
	assert.Equal(t, "r255", l.Remotes[255].Name)
	assert.Contains(t, b.stderr.String(), "r256 and those after it are left out")
}
