package rollout

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/turnjournal"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// written makes codex's file of a thread of lines, each with its ordinal.
func written(t *testing.T, lines ...string) *os.File {
	t.Helper()
	var b strings.Builder
	for n, payload := range lines {
		kind, rest, _ := strings.Cut(payload, " ")
		fmt.Fprintf(&b, `{"timestamp":"2026-11-23T12:00:00.000Z","ordinal":%d,"type":%q,"payload":%s}`+"\n", n, kind, rest)
	}
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "rollout-T.jsonl"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.WriteString(b.String())
	require.NoError(t, err)
	return f
}

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// turns is how many of the last turns the tests read.
const turns = 4

func said(id, text string) turnjournal.Input {
	b, _ := json.Marshal([]map[string]string{{"type": "text", "text": text}})
	return turnjournal.Input{ClientID: id, Content: b}
}

const (
	meta    = `session_meta {"id":"T"}`
	start1  = `event_msg {"type":"task_started","turn_attribution":{"turn_id":"t1"},"turn_id":"t1"}`
	start2  = `event_msg {"type":"task_started","turn_id":"t2"}`
	end1    = `event_msg {"type":"task_complete","turn_id":"t1"}`
	abort1  = `event_msg {"type":"turn_aborted","turn_id":"t1","reason":"interrupted"}`
	model1  = `response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}`
	people1 = `event_msg {"type":"item_completed","item":{"type":"UserMessage","client_id":"m1","content":[{"type":"text","text":"one"}]}}`
	model2  = `response_item {"type":"message","role":"user","content":[{"type":"input_text","text":"two"}]}`
)

func TestReadRollout(t *testing.T) {
	message := codexthread.Item{Type: "userMessage", ClientID: "m1", Content: []byte(`[{"type":"text","text":"one"}]`)}
	for name, c := range map[string]struct {
		lines []string
		want  []codexthread.Turn
	}{
		"a new thread":     {[]string{meta}, nil},
		"a cut turn":       {[]string{meta, start1, model1, people1}, []codexthread.Turn{{ID: "t1", Status: codexthread.Interrupted, Items: []codexthread.Item{message}}}},
		"a whole turn":     {[]string{meta, start1, model1, people1, end1}, []codexthread.Turn{{ID: "t1", Status: codexthread.Completed, Items: []codexthread.Item{message}}}},
		"an interrupt":     {[]string{meta, start1, people1, abort1}, []codexthread.Turn{{ID: "t1", Status: codexthread.Aborted, Items: []codexthread.Item{message}}}},
		"a beginning":      {[]string{meta, start1, people1, end1, start2}, []codexthread.Turn{{ID: "t2", Status: codexthread.Interrupted}, {ID: "t1", Status: codexthread.Completed, Items: []codexthread.Item{message}}}},
		"half a message":   {[]string{meta, start1, model1}, []codexthread.Turn{{ID: "t1", Status: codexthread.Interrupted}}},
		"a long last line": {[]string{meta, start1, `response_item {"x":"` + strings.Repeat("x", 3<<20) + `"}`}, []codexthread.Turn{{ID: "t1", Status: codexthread.Interrupted}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := written(t, c.lines...)
			r, err := Read(f, turns)
			require.NoError(t, err)
			assert.Equal(t, c.want, r.Turns)
			_, err = f.WriteString(`{"timestamp":"2026-11-23T12:00`) // and codex was killed
			require.NoError(t, err)
			r, err = Read(f, turns)
			require.NoError(t, err)
			assert.Equal(t, c.want, r.Turns)
		})
	}
}

func TestMend(t *testing.T) {
	const completed = `{"timestamp":"2026-11-23T12:00:00.000Z","ordinal":%d,"type":"event_msg",` +
		`"payload":{"type":"task_complete","root_turn_id":%q,"turn_id":%[2]q,"last_agent_message":null}}` + "\n"
	for name, c := range map[string]struct {
		lines []string
		lost  []turnjournal.Input
		kept  int // lines that stay
		turn  string
	}{
		"a cut turn is ended":          {[]string{meta, start1, model1, people1}, nil, 4, "t1"},
		"a beginning is ended":         {[]string{meta, start1, end1, start2}, nil, 4, "t2"},
		"half a message is taken back": {[]string{meta, start1, model1}, []turnjournal.Input{said("m1", "one")}, 2, "t1"},
		"so are two":                   {[]string{meta, start1, model1, model2}, []turnjournal.Input{said("m1", "one"), said("m2", "two")}, 2, "t1"},
		"another message stays":        {[]string{meta, start1, model1}, []turnjournal.Input{said("m2", "two")}, 3, "t1"},
		"a whole turn stays":           {[]string{meta, start1, end1}, []turnjournal.Input{said("m2", "two")}, 3, ""},
		"an interrupted turn stays":    {[]string{meta, start1, abort1}, nil, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(written(t, c.lines[:c.kept]...).Name())
			require.NoError(t, err)
			f := written(t, c.lines...)
			if c.turn != "" {
				whole, err := os.ReadFile(f.Name())
				require.NoError(t, err)
				if back := len(whole) - len(want); back > 0 { // what codex's index has read stays where it is
					want = fmt.Appendf(want, "%*s\n", back-1, "")
				}
				want = fmt.Appendf(want, completed, len(c.lines)+unusedOrdinals, c.turn)
				_, err = f.WriteString(`{"timestamp":`) // half a line
				require.NoError(t, err)
			}
			r, err := Read(f, 1)
			require.NoError(t, err)
			require.NoError(t, Repair(f, r, c.lost, now))
			got, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got))
			r, err = Read(f, turns)
			require.NoError(t, err)
			if assert.NoError(t, Repair(f, r, c.lost, now)); c.turn != "" {
				assert.Equal(t, codexthread.Completed, r.Turns[0].Status)
			}
			again, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			assert.Equal(t, string(want), string(again), "once is enough")
		})
	}
}

// A file of another form, or in another place, stays as it is.
func TestMendLeavesWhatItDoesNotKnow(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "sessions", "2026")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "rollout-T.jsonl")
	for _, text := range []string{
		"", "x", "\n", "garbage\n", `{"type":"event_msg","payload":{"type":"task_started","turn_id":"t1"}}` + "\n",
		`{"type":"event_msg","payload":"task_started"}` + "\n",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		f, err := Open(home, path, "T", os.O_RDWR)
		require.NoError(t, err)
		r, err := Read(f, 1)
		if err == nil {
			err = Repair(f, r, nil, now)
		}
		if text != "garbage\n" && text != "\n" { // which have no turn
			assert.Error(t, err, "%q", text)
		}
		require.NoError(t, f.Close())
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(b))
	}
	for _, bad := range []string{"", "relative", "/etc/passwd", filepath.Join(dir, "rollout-U.jsonl"), dir,
		filepath.Join(home, "sessions", "..", "T")} {
		_, err := Open(home, bad, "T", os.O_RDWR)
		assert.Error(t, err, "%q", bad)
	}
	secret := filepath.Join(t.TempDir(), "T")
	require.NoError(t, os.WriteFile(secret, []byte("{}\n"), 0o600))
	for link, target := range map[string]string{"T-file": secret, "T-ledger": "../../keeper/T"} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
		_, err := Open(home, filepath.Join(dir, link), "T", os.O_RDWR)
		assert.Error(t, err, "a link leads out of the home, or to nothing")
	}
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "T-fifo"), 0o600))
	_, err := Open(home, filepath.Join(dir, "T-fifo"), "T", os.O_RDONLY)
	assert.ErrorContains(t, err, "is no regular file")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "T"), 0o700))
	_, err = Open(home, filepath.Join(dir, "T"), "T", os.O_RDONLY)
	assert.ErrorContains(t, err, "is no regular file")
}

func FuzzReadRollout(f *testing.F) {
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"type":"event_msg","payload":{"type":"task_started","turn_id":"t1"}}` + "\n" + `{"ty`))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "T")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer file.Close()
		if r, err := Read(file, turns); err == nil {
			_ = Repair(file, r, []turnjournal.Input{said("m", "x")}, now)
		}
	})
}
