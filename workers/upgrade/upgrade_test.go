package upgrade

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/copies"
)

// bed is root's part behind a socket, with a program that is installed.
type bed struct {
	Client
	*Steps
	program string
	policy  copies.Policy
	tried   []string
	verdict func(name string) error // of the canary
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("", "up") // a socket's path has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // others read the copies
	b := &bed{Client: Client{filepath.Join(dir, "s")}, program: filepath.Join(dir, "opt/bin/codex"), policy: copies.Follow}
	store := copies.At(filepath.Join(dir, "copies"), filepath.Join(dir, "runs"))
	b.verdict = func(name string) error { return store.Use(t.Context(), name) }
	b.Steps = &Steps{
		Store: store, Logger: slog.New(slog.DiscardHandler),
		Policy: func() (copies.Policy, error) { return b.policy, nil },
		Find:   func() (string, error) { return b.program, nil },
		Try: func(_ context.Context, unit string) error {
			name := strings.TrimSuffix(strings.TrimPrefix(unit, "codex-canary@"), ".service")
			b.tried = append(b.tried, name)
			return b.verdict(name)
		},
	}
	l, err := net.Listen("unix", b.Socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.NewServer(time.Minute).Run(ctx, l) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	return b
}

func (b *bed) install(t *testing.T, version, text string) {
	t.Helper()
	root := filepath.Dir(filepath.Dir(b.program))
	require.NoError(t, os.RemoveAll(root))
	require.NoError(t, os.MkdirAll(filepath.Dir(b.program), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "codex-package.json"), []byte(`{"version":"`+version+`"}`), 0o644)) //nolint:gosec // a package
	require.NoError(t, os.WriteFile(b.program, []byte(text), 0o755))                                                        //nolint:gosec // a program
}

func (b *bed) look(t *testing.T) Outcome {
	t.Helper()
	o, err := b.Client.Look(t.Context())
	require.NoError(t, err)
	return o
}

// A new codex is tried once, and then in use or held back, whatever asks.
func TestLook(t *testing.T) {
	b := newBed(t)
	b.install(t, "0.171.0", "one")
	one := b.look(t)
	assert.Equal(t, Outcome{Copy: one.Copy, Tried: true}, one)
	assert.Equal(t, Outcome{Copy: one.Copy}, b.look(t), "it is in use")

	b.verdict = func(name string) error {
		return errors.Join(b.Store.Hold(t.Context(), name, "it fails at a plain turn"), errors.New("the job failed"))
	}
	b.install(t, "0.172.0", "two")
	two := b.look(t)
	assert.Equal(t, Outcome{Copy: two.Copy, Tried: true, Reason: "it fails at a plain turn"}, two)
	assert.Equal(t, Outcome{Copy: two.Copy, Reason: "it fails at a plain turn"}, b.look(t), "it is held back")
	state, err := b.Store.State()
	require.NoError(t, err)
	assert.Equal(t, one.Copy, state.InUse)
	assert.Equal(t, []string{one.Copy, two.Copy}, b.tried)

	b.install(t, "0.172.0", "two")
	assert.Equal(t, Outcome{Copy: two.Copy, Reason: "it fails at a plain turn"}, b.look(t), "and installed anew")
	_, err = b.Store.Get(two.Copy)
	require.Error(t, err, "its copy goes")
	known := b.Store.Installed(b.program)
	assert.Equal(t, two.Copy, known.Copy)
	assert.NotNil(t, known.Held, "it is known without one")
	assert.Equal(t, []string{one.Copy, two.Copy}, b.tried)

	b.install(t, "0.173.0", "three")
	b.verdict = func(string) error { return errors.New("no such unit") }
	_, err = b.Client.Look(t.Context())
	require.EqualError(t, err, "cannot try codex: no such unit")
	b.policy = copies.Pinned
	assert.Equal(t, "the operator has chosen another one", b.look(t).Reason)
}

func TestBack(t *testing.T) {
	b := newBed(t)
	b.install(t, "0.171.0", "one")
	one := b.look(t)
	require.ErrorContains(t, b.Client.Back(t.Context(), Back{Copy: one.Copy, Reason: "x"}), "there was none before")
	b.install(t, "0.172.0", "two")
	two := b.look(t)
	require.ErrorContains(t, b.Client.Back(t.Context(), Back{Copy: one.Copy, Reason: "x"}), "is not in use any more")
	require.NoError(t, b.Client.Back(t.Context(), Back{Copy: two.Copy, Reason: "5 of 20 turns failed:\n no such table"}))
	state, err := b.Store.State()
	require.NoError(t, err)
	assert.Equal(t, one.Copy, state.InUse)
	held, is := state.HeldBack(two.Copy)
	assert.True(t, is)
	assert.Equal(t, "5 of 20 turns failed: no such table", held.Reason)
	assert.Equal(t, Outcome{Copy: two.Copy, Reason: held.Reason}, b.look(t), "it stays back")

	undo := Back{Copy: two.Copy, Undo: true}
	gone, err := b.Store.Prune(t.Context()) // when the last unit has changed back
	require.NoError(t, err)
	require.Equal(t, []string{two.Copy}, gone)
	require.NoError(t, b.Client.Back(t.Context(), undo))
	state, err = b.Store.State()
	require.NoError(t, err)
	assert.Equal(t, two.Copy, state.InUse)
	require.ErrorContains(t, b.Client.Back(t.Context(), undo), "no way back")
	three := "0.173.0-0123456789ab" // which has failed its trial
	require.NoError(t, b.Store.Hold(t.Context(), three, "it fails at a plain turn"))
	require.NoError(t, b.Store.Change(t.Context(), func(s *copies.State) error { s.Changed = s.Changed.Add(-time.Minute); return nil }))
	require.ErrorContains(t, b.Client.Back(t.Context(), Back{Copy: three, Undo: true}), "no way back")
}
