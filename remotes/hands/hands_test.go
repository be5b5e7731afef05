package hands

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The settings of a place and of a sandbox do not reach codex, and all else does.
func TestSettle(t *testing.T) {
	for _, c := range []struct{ method, params, want, refused string }{
		{"thread/start", `{"cwd":"/home/me","model":"m","sandbox":"read-only","config":{"sandbox_mode":"x","features.a":true,"model":"n"}}`,
			`{"model":"m","config":{"features.a":true,"model":"n"},"cwd":"/workspace"}`, ""},
		{"thread/start", `{}`, `{"cwd":"/workspace"}`, ""},
		{"thread/start", `{"cwd":"/a","cwd":"/b","config":null}`, `{"config":null,"cwd":"/workspace"}`, ""},
		{"turn/start", `{"threadId":"t","input":[],"sandboxPolicy":{"type":"readOnly"},"permissions":"p","environments":null}`,
			`{"threadId":"t","input":[],"cwd":"/workspace"}`, ""},
		{"turn/start", `{"threadId":"t","environments":[]}`, "", `it sets "environments"`},
		{"thread/start", `{"environments":[{"environmentId":"local"}]}`, "", `it sets "environments"`},
		{"thread/start", `{"environment\u0073":[]}`, "", "a name with an escape"},
		{"turn/settings/update", `{"environments":[]}`, "", `it sets "environments"`},
		{"thread/settings/update", `{"cwd":"/x","model":"m"}`, `{"model":"m"}`, ""},
		{"turn/steer", `{"cwd":"/x"}`, `{"cwd":"/x"}`, ""},
	} {
		got, err := settledParams(c.method, []byte(c.params))
		if c.refused != "" {
			assert.ErrorContains(t, err, c.refused, c.params)
			continue
		}
		require.NoError(t, err, c.params)
		assert.JSONEq(t, c.want, string(got))
		assert.Equal(t, c.want, string(got))
	}
}

// The journal has the commands that codex starts, in bounds, and nothing of other messages.
func TestObserve(t *testing.T) {
	var log bytes.Buffer
	h := &Hands{Options: Options{Mark: "codex-remote@build", Logger: slog.New(slog.NewJSONHandler(&log, nil))}}
	message := func(argv ...string) []byte {
		text, err := json.Marshal(map[string]any{"id": 7, "method": "process/start", "params": map[string]any{
			"processId": "p", "metadata": map[string]any{"threadId": "t1", "toolCallId": "c1"}, "argv": argv,
			"cwd": "file:///workspace/a%20b", "env": map[string]string{"SECRET": "hidden"}}})
		require.NoError(t, err)
		return text
	}
	// codex writes the members in this order.
	ordered := func(argv ...string) []byte {
		var m map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(message(argv...), &m))
		return []byte(`{"id":7,"method":"process/start","params":` + string(m["params"]) + `}`)
	}
	h.observe([]byte(`{"id":1,"method":"fs/readFile","params":{"path":"file:///process/start"}}`), true, nil)
	h.observe([]byte(`{"method":"process/output","params":{"x":"\"process/start\""}}`), true, nil)
	assert.Zero(t, h.Commands())
	h.observe(ordered("/bin/sh", "-c", "echo one"), true, nil)
	h.observe(ordered("echo", strings.Repeat("x", 100_000)), true, nil)
	h.observe([]byte(`{"id":8,"method":"process/start","params":{"argv":["a`), false, nil)
	assert.Equal(t, 3, h.Commands())
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 3)
	for _, part := range []string{`"thread_id":"t1"`, `"tool_call":"c1"`, `"dir":"/workspace/a b"`, `"command":"/bin/sh -c echo one"`} {
		assert.Contains(t, lines[0], part)
	}
	assert.NotContains(t, log.String(), "hidden")
	assert.Less(t, len(lines[1]), 5000)
	assert.Contains(t, lines[2], "more than 1 MiB")
}

// A search prefers the name of the file, and finds letters in their order alone.
func TestFind(t *testing.T) {
	s := &search{root: Directory, files: []string{"./docs/remotes.md", "remotes/hands/hands.go", "remotes/hands/gate.go", "README.md", ""}}
	var paths []string
	for _, f := range s.find("hands") {
		paths = append(paths, f.Path)
	}
	assert.Equal(t, []string{"remotes/hands/hands.go", "remotes/hands/gate.go"}, paths)
	assert.Equal(t, "README.md", s.find("rdme")[0].Path)
	assert.Empty(t, s.find("zz"))
	assert.NotNil(t, s.find("zz"), "JSON has a list")
	assert.Len(t, s.find(""), 4)
	indices, _ := match("a/bca", []rune("ca"))
	assert.Equal(t, []int{3, 4}, indices)
}

// A record that another program has written in part, or that names no session, is none.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	r, err := readRecord(dir)
	require.NoError(t, err)
	assert.Empty(t, r)
	want := record{Session: "abcdefghijklmnop", Source: Source{Repo: "/srv/app", Ref: "main"}}
	require.NoError(t, want.write(dir))
	r, err = readRecord(dir)
	require.NoError(t, err)
	assert.Equal(t, want, r)
	for _, bad := range []string{`{"session":"../../x"}`, `{"session":`, `[]`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, recordName), []byte(bad), 0o600))
		id, err := SessionOf(dir)
		require.NoError(t, err)
		assert.Empty(t, id, bad)
		r, err = ownRecord(dir, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		assert.Empty(t, r, bad)
		kept, err := os.ReadFile(filepath.Join(dir, recordName+".bad"))
		require.NoError(t, err)
		assert.Equal(t, bad, string(kept))
	}
}

func TestFileURL(t *testing.T) {
	assert.Equal(t, "file:///workspace/a%20b", fileURL("a b"))
	assert.Equal(t, "file:///etc/x", fileURL("/workspace/../etc/x"))
}

// A session that lists millions of names takes little memory, and the best of many are found.
func TestFindIsBounded(t *testing.T) {
	files := names(strings.Repeat("a\n", 2<<20))
	assert.Len(t, files, mostNames)
	assert.LessOrEqual(t, cap(files), 2*mostNames)
	files[len(files)-1] = "best"
	s := &search{root: Directory, files: files}
	assert.Len(t, s.find(""), mostFound)
	assert.Len(t, s.find("a"), mostFound)
	assert.Equal(t, "best", s.find("best")[0].Path)
	assert.Empty(t, s.find(strings.Repeat("a", 1<<20)))
	assert.Less(t, testing.AllocsPerRun(1, func() { s.find(strings.Repeat("é", 1<<20)) }), float64(4*mostNames))
}

// The model reads the beginning and the end of a long output.
func TestNoteIsShortened(t *testing.T) {
	text, err := json.Marshal(note("cat log", Ended{}, "BEGIN"+strings.Repeat("é", 300_000)+"END"))
	require.NoError(t, err)
	assert.Less(t, len(text), mostNoted+1000)
	for _, part := range []string{"BEGIN", "END", "bytes omitted", "cat log"} {
		assert.Contains(t, string(text), part)
	}
	assert.Equal(t, "short", shortened("short"))
}

// A request ends without an answer of the hands, and a command has its own bound.
func TestRequestsEnd(t *testing.T) {
	for method, want := range map[string]bool{"fs/readFile": true, "fuzzyFileSearch/sessionUpdate": true,
		"command/exec": false, "thread/shellCommand": false} {
		ctx, cancel := timed(t.Context(), method)
		_, has := ctx.Deadline()
		cancel()
		assert.Equal(t, want, has, method)
	}
}
