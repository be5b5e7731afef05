package remotes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLedgerOutlivesTheKeeper(t *testing.T) {
	o := Options{State: filepath.Join(t.TempDir(), "keeper")}
	k, err := New(o)
	require.NoError(t, err)
	k.Passing("", "turn/start", []byte(`{"threadId":"T","clientUserMessageId":"m","input":[{"type":"text","text":"x"}]}`))
	k.Passing("", "turn/interrupt", []byte(`{"threadId":"U","turnId":"u1"}`))
	k.Passing("", "turn/start", []byte(`not JSON`))
	k.Passing("", "turn/start", []byte(`{}`))
	k.Passing("", "turn/start", []byte(`{"threadId":"-cnotify=[]","input":[]}`))
	k.Passing("", "turn/start", []byte(`{"threadid":"V","input":[]}`))
	again, err := New(o)
	require.NoError(t, err)
	assert.JSONEq(t, string(k.state.ledger.encode()), string(again.state.ledger.encode()))
	assert.Len(t, again.Status().Turns, 2)
	st, err := ReadState(o.State)
	require.NoError(t, err)
	assert.Equal(t, again.Status(), st)
	info, err := os.Stat(filepath.Join(o.State, ledgerFile))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode(), "it has messages of the user")
}

// A ledger that does not parse stops no remote, and is not overwritten.
func TestBadLedger(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ledgerFile)
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
		k, err := New(Options{State: dir})
		require.NoError(t, err, "%q", text)
		k.Passing("", "turn/interrupt", []byte(`{"threadId":"T","turnId":"t"}`))
	}
	_, err := New(Options{State: filepath.Join(dir, "no", "such")})
	assert.ErrorContains(t, err, "cannot make the directory of the ledger")
}

func TestTheLedgerIsBounded(t *testing.T) {
	k, err := New(Options{State: t.TempDir()})
	require.NoError(t, err)
	k.update(func(s *state) {
		for n := range maxRecords {
			s.ensure(string(rune('a'+n)), now)
		}
	})
	k.Passing("", "turn/start", []byte(`{"threadId":"one more","input":[]}`))
	assert.Len(t, k.state.ledger.Threads, maxRecords)
	for range 2 * maxInputs {
		k.Passing("", "turn/start", []byte(`{"threadId":"a","input":[]}`))
	}
	assert.Len(t, k.state.ledger.Threads["a"].Inputs, maxInputs)
}

// A message that no codex takes does not end the keeper, nor the ledger.
func TestDeepMessages(t *testing.T) {
	dir := t.TempDir()
	k, err := New(Options{State: dir})
	require.NoError(t, err)
	for _, deep := range []string{
		`"input":` + strings.Repeat("[", 9990) + strings.Repeat("]", 9990),
		`"input":[],"model":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	} {
		k.Passing("1", "turn/start", []byte(`{"threadId":"T",`+deep+`}`))
		assert.Empty(t, k.state.ledger.Threads["T"].Inputs)
	}
	k.Passing("2", "turn/start", []byte(`{"threadId":"T","input":[`+strings.Repeat("[", 100)+strings.Repeat("0,", 1<<18)+
		"0"+strings.Repeat("]", 100)+`]}`))
	assert.Len(t, k.state.ledger.Threads["T"].Inputs, 1)
	assert.Less(t, len(k.state.ledger.encode()), maxInput)
	l, err := readLedger(dir)
	require.NoError(t, err)
	assert.Len(t, l.Threads["T"].Inputs, 1)
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	k, err := New(Options{State: dir})
	require.NoError(t, err)
	k.Passing("1 7", "turn/steer", []byte(`{"threadId":"T","input":[]}`))
	k.Refused("1 8")
	assert.Len(t, k.state.ledger.Threads, 1)
	k.Refused("1 7")
	l, err := readLedger(dir)
	require.NoError(t, err)
	assert.Empty(t, l.Threads)
}

// Whoever owns the directory of a remote that is stopped neither holds `codex-proxy remotes list` up, nor has root read
// another file.
func TestLedgerThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ledgerFile)
	require.NoError(t, unix.Mkfifo(path, 0o600))
	_, err := ReadState(dir)
	require.ErrorContains(t, err, "is no regular file")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink("/etc/passwd", path))
	_, err = ReadState(dir)
	require.ErrorIs(t, err, unix.ELOOP)
}
