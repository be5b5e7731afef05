package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/store"
	"codex-proxy/test/nightly"
)

// A user has its share of the places and of the queue, and root has all.
func TestShareOfTheQueue(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) {
		s.MaxSessions, s.Workspaces, s.Share = 3, 3, queue.Share{Sessions: 2, Queued: 2}
	})
	b.create(alice, "a1")
	first := b.started()
	b.create(alice, "a2")
	b.started()
	third := b.create(alice, "a3", "a4")
	_, err := b.Create(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"a5"}}}})
	assertCode(t, wire.QueueFull, err)
	assert.ErrorContains(t, err, "2 of your commands wait already, of at most 2")
	_, err = b.Add(t.Context(), store.Viewer{UID: alice.UID}, third.ID, wire.NewCommand{Args: []string{"a5"}})
	assertCode(t, wire.QueueFull, err)
	b.create(wire.Owner{UID: 1001, Name: "bob"}, "b1")
	assert.Equal(t, "b1", b.started().Spec.Args[0], "the place that alice may not have")
	first.End(exit(0))
	assert.Equal(t, "a3", b.started().Spec.Args[0])
	b.create(wire.Owner{UID: 0, Name: "root"}, "r1", "r2", "r3")
}

// The standard inputs of commands that have not ended are bounded for each user.
func TestShareOfStdin(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.MaxSessions, s.Share.Stdin = 1, 10 })
	viewer := store.Viewer{UID: alice.UID}
	create := func() wire.Session {
		s, err := b.Create(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"cat"}, Stdin: true}}})
		require.NoError(t, err)
		return s
	}
	put := func(s wire.Session, text string) error {
		_, err := b.PutStdin(t.Context(), viewer, s.ID, 1, strings.NewReader(text))
		return err
	}
	first, second := create(), create()
	require.NoError(t, put(first, "1234567"))
	u := b.started()
	for range 2 { // one that was refused does not count
		err := put(second, "1234")
		assertCode(t, wire.TooLarge, err)
		assert.ErrorContains(t, err, "your standard inputs have more than 10 bytes together")
	}
	b.stop()
	b.start()
	assertCode(t, wire.TooLarge, put(second, "1234"))
	u.End(exit(0))
	b.until(first.ID, ended(1))
	require.Eventually(t, func() bool {
		_, err := os.Stat(u.File(paths.Stdin))
		return os.IsNotExist(err) && put(second, "1234567890") == nil
	}, patience, 1_000_000)
	require.NoError(t, b.Cancel(t.Context(), viewer, second.ID, 0, "alice"))
}

// An upload that ends as its command is cancelled leaves nothing.
func TestStdinOfCancelled(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.MaxSessions, s.Share.Stdin = 1, 10 })
	viewer := store.Viewer{UID: alice.UID}
	b.create(alice, "has the place")
	b.started()
	for range nightly.Or(300, 100) {
		s, err := b.Create(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"cat"}, Stdin: true}}})
		require.NoError(t, err)
		var both sync.WaitGroup
		both.Go(func() {
			_, err := b.PutStdin(t.Context(), viewer, s.ID, 1, strings.NewReader("1234567890"))
			if err != nil {
				assertCode(t, wire.Conflict, err)
			}
		})
		assert.NoError(t, b.Cancel(t.Context(), viewer, s.ID, 0, "alice"))
		both.Wait()
		b.until(s.ID, ended(1))
		_, err = os.Stat(filepath.Join(b.settings.StateDir, paths.CommandDir(s.ID, 1), paths.Stdin))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}
