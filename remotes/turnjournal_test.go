package remotes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex-proxy/remotes/turnjournal"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTurnJournalOutlivesTheManager(t *testing.T) {
	o := Options{State: filepath.Join(t.TempDir(), "keeper")}
	m, err := New(o)
	require.NoError(t, err)
	m.RecordRequest("", "turn/start", []byte(`{"threadId":"T","clientUserMessageId":"m","input":[{"type":"text","text":"x"}]}`))
	m.RecordRequest("", "turn/interrupt", []byte(`{"threadId":"U","turnId":"u1"}`))
	m.RecordRequest("", "turn/start", []byte(`not JSON`))
	m.RecordRequest("", "turn/start", []byte(`{}`))
	m.RecordRequest("", "turn/start", []byte(`{"threadId":"-cnotify=[]","input":[]}`))
	m.RecordRequest("", "turn/start", []byte(`{"threadid":"V","input":[]}`))
	again, err := New(o)
	require.NoError(t, err)
	assert.JSONEq(t, string(m.state.journal.Encode()), string(again.state.journal.Encode()))
	assert.Len(t, again.Status().Turns, 2)
	st, err := ReadState(o.State)
	require.NoError(t, err)
	assert.Equal(t, again.Status(), st)
	info, err := os.Stat(filepath.Join(o.State, turnjournal.File))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode(), "it has messages of the user")
}

// A turn journal that does not parse stops no remote, and is not overwritten.
func TestBadTurnJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, turnjournal.File)
	for _, text := range []string{"", "{", "null garbage", `{"threads":[]}`, `{"threads":{"T":{"since":"never"}}}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := New(Options{State: dir})
		require.NoError(t, err, "%q", text)
		b, err := os.ReadFile(path + ".bad")
		require.NoError(t, err)
		assert.Equal(t, text, string(b))
	}
	for _, text := range []string{"null", "{}", `{"threads":null}`, `{"threads":{"T":null}}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		m, err := New(Options{State: dir})
		require.NoError(t, err, "%q", text)
		m.RecordRequest("", "turn/interrupt", []byte(`{"threadId":"T","turnId":"t"}`))
	}
	_, err := New(Options{State: filepath.Join(dir, "no", "such")})
	assert.ErrorContains(t, err, "cannot make the directory of the turn journal")
}

func TestTheTurnJournalIsBounded(t *testing.T) {
	m, err := New(Options{State: t.TempDir()})
	require.NoError(t, err)
	m.update(func(s *state) {
		for n := range maxRecords {
			s.ensure(string(rune('a'+n)), now)
		}
	})
	m.RecordRequest("", "turn/start", []byte(`{"threadId":"one more","input":[]}`))
	assert.Len(t, m.state.journal.Threads, maxRecords)
	for range 2 * turnjournal.MaxInputs {
		m.RecordRequest("", "turn/start", []byte(`{"threadId":"a","input":[]}`))
	}
	assert.Len(t, m.state.journal.Threads["a"].Inputs, turnjournal.MaxInputs)
}

// A message that no codex takes does not end the manager, nor the turn journal.
func TestDeepMessages(t *testing.T) {
	dir := t.TempDir()
	m, err := New(Options{State: dir})
	require.NoError(t, err)
	for _, deep := range []string{
		`"input":` + strings.Repeat("[", 9990) + strings.Repeat("]", 9990),
		`"input":[],"model":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	} {
		m.RecordRequest("1", "turn/start", []byte(`{"threadId":"T",`+deep+`}`))
		assert.Empty(t, m.state.journal.Threads["T"].Inputs)
	}
	m.RecordRequest("2", "turn/start", []byte(`{"threadId":"T","input":[`+strings.Repeat("[", 100)+strings.Repeat("0,", 1<<18)+
		"0"+strings.Repeat("]", 100)+`]}`))
	assert.Len(t, m.state.journal.Threads["T"].Inputs, 1)
	assert.Less(t, len(m.state.journal.Encode()), turnjournal.MaxInput)
	l, err := turnjournal.Read(dir)
	require.NoError(t, err)
	assert.Len(t, l.Threads["T"].Inputs, 1)
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	m, err := New(Options{State: dir})
	require.NoError(t, err)
	m.RecordRequest("1 7", "turn/steer", []byte(`{"threadId":"T","input":[]}`))
	m.RecordRefusal("1 8")
	assert.Len(t, m.state.journal.Threads, 1)
	m.RecordRefusal("1 7")
	l, err := turnjournal.Read(dir)
	require.NoError(t, err)
	assert.Empty(t, l.Threads)
}
