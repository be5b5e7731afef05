package codexhome

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/sqlite"
	"codex-proxy/test/modelserver"
)

// realCodexes are the codex of all tests and the oldest that the product accepts, by the variables that name them.
var realCodexes = map[string]string{"pinned": "CODEX_PROXY_TEST_CODEX", "oldest": "CODEX_PROXY_TEST_CODEX_OLDEST"}

// entries counts the entries of codex's trace log, after one more insert, which shows that none is ignored or all are.
func (h *Home) entries(t *testing.T) int {
	t.Helper()
	files := TraceLogs(h.Dir)
	require.Len(t, files, 1, "codex has one such file; a newer one needs its trigger, too")
	db, err := sqlite.OpenForeign(files[0])
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("INSERT INTO logs (ts, ts_nanos, level, target, estimated_bytes) VALUES (1, 1, 'INFO', 'test', 1)")
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM logs").Scan(&n))
	return n
}

// tracedHome is a home for a worker of the codex that the variable names, with a model that has one answer.
func tracedHome(t *testing.T, variable string) *Home {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Skip(variable + " names no codex")
	}
	models := modelserver.Start(t)
	require.NoError(t, models.Script("text hello", "text hello", "text hello"))
	return newHome(t, t.TempDir(), "mode = \"plain\"\nmodel = \"test-model\"\ncodex_path = \""+program+"\"\n"+
		"[provider]\nname = \"local\"\nbase_url = \""+models.URL()+"/v1\"\n")
}

// turn runs a turn in an ephemeral thread of codex's app-server, as the daemon does, and then calls meanwhile.
func (h *Home) turn(t *testing.T, meanwhile func()) {
	t.Helper()
	cmd := codexOf(bounded(t), h, "app-server")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	until := func(send, mark string) string {
		_, err := fmt.Fprintln(in, send)
		require.NoError(t, err)
		for lines.Scan() {
			if strings.Contains(lines.Text(), mark) {
				return lines.Text()
			}
		}
		require.Fail(t, "codex ended", "before %s: %v", mark, lines.Err())
		return ""
	}
	until(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","title":"t","version":"1"}}}`, `"id":1`)
	var started struct {
		Result struct{ Thread struct{ ID string } }
	}
	answer := until(`{"method":"initialized"}`+"\n"+`{"id":2,"method":"thread/start","params":{"ephemeral":true}}`, `"id":2`)
	require.NoError(t, json.Unmarshal([]byte(answer), &started), answer)
	done := until(fmt.Sprintf(`{"id":3,"method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":"hi"}]}}`,
		started.Result.Thread.ID), `"turn/completed"`)
	assert.Contains(t, done, `"completed"`)
	meanwhile()
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

func nothing() {}

// logged waits until codex, which writes its log at intervals, has written some.
func (h *Home) logged(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return h.entries(t) > 20 }, 5*time.Minute, 50*time.Millisecond,
		"without the trigger codex logs, else these tests show nothing")
}

func TestATurnOfARealCodexLeavesNoTraces(t *testing.T) {
	for name, variable := range realCodexes {
		t.Run(name, func(t *testing.T) {
			h := tracedHome(t, variable)
			require.NoError(t, h.Prepare(bounded(t)))
			h.turn(t, nothing)
			assert.Zero(t, h.entries(t))
		})
	}
}

// A home of an earlier version of this program has a log that has grown.
func TestTracesThatARealCodexCollectedAreRemoved(t *testing.T) {
	for name, variable := range realCodexes {
		t.Run(name, func(t *testing.T) {
			h := tracedHome(t, variable)
			require.NoError(t, h.Prepare(bounded(t)))
			require.NoError(t, RemoveTraces(h.Dir))
			h.turn(t, func() { h.logged(t) })

			require.NoError(t, h.Prepare(bounded(t)))
			h.turn(t, nothing)
			assert.Zero(t, h.entries(t))
		})
	}
}

// The file may be damaged, and its place may be taken.
func TestAWorkerStartsWhateverBecameOfTheTraceLog(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"garbage":   func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 8192), 0o600) },
		"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"gone":      func(string) error { return nil },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			h := tracedHome(t, realCodexes["pinned"])
			require.NoError(t, h.Prepare(bounded(t)))
			require.NoError(t, RemoveTraces(h.Dir))
			require.NoError(t, spoil(filepath.Join(h.Dir, "logs_2.sqlite")))
			require.NoError(t, h.Prepare(bounded(t)))
			h.turn(t, nothing)
			if len(TraceLogs(h.Dir)) > 0 {
				assert.Zero(t, h.entries(t))
			}
		})
	}
}

func TestAWorkerStartsThoughItsTracesCannotBeTurnedOff(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	path := filepath.Join(f.Dir, "logs_2.sqlite")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 8192), 0o600))
	require.NoError(t, os.Mkdir(path+"-wal", 0o700))
	require.NoError(t, os.WriteFile(path+"-wal/stays", nil, 0o600))
	require.NoError(t, f.Prepare(context.Background()))
	require.Len(t, f.notes, 1)
	assert.Contains(t, f.notes[0], "cannot turn off codex's log of traces in "+f.Dir)
}

func TestTheTraceLogOfARemoteIsBounded(t *testing.T) {
	h := newHome(t, t.TempDir(), "")
	path := filepath.Join(h.Dir, "logs_2.sqlite")
	for size, want := range map[int64]bool{MostTraces: true, MostTraces + 1: false} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, size))
		h.boundTraces()
		assert.Equal(t, want, len(TraceLogs(h.Dir)) == 1, size)
	}
}

// A tool of a remote may put a link in the place of the file.
func TestTheTraceLogOfARemoteIsNoLink(t *testing.T) {
	h := newHome(t, t.TempDir(), "")
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, os.Truncate(other, MostTraces+1))
	require.NoError(t, os.Symlink(other, filepath.Join(h.Dir, "logs_2.sqlite")))
	h.boundTraces()
	assert.FileExists(t, other)
}
