package fleet

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/usage"
)

func newExchange(t *testing.T) (e *Exchange, changes *int) {
	t.Helper()
	address, err := postgres.ParseAddress("postgres://codex@db/codex")
	require.NoError(t, err)
	changes = new(int)
	return NewExchange(Settings{
		Server: postgres.Server{Address: address, Password: "x", Relay: filepath.Join(t.TempDir(), "none")},
		Limits: limits.NewShares(),
		Keys:   &auth.Keys{}, KeysMaxAge: time.Hour, Changed: func() { *changes++ }, Logger: slog.New(slog.DiscardHandler),
	}), changes
}

// One exchange may fail. After that the database is away since the same time, until it is back.
func TestAwayAndBack(t *testing.T) {
	e, changes := newExchange(t)
	e.back()
	assert.False(t, e.Report().Away)
	assert.Equal(t, 1, *changes)
	e.once(context.Background())
	assert.False(t, e.Report().Away, "the first one that fails")
	e.once(context.Background())
	away := e.Report()
	assert.True(t, away.Away)
	assert.Contains(t, away.Reason, "no such file")
	assert.Equal(t, "db:5432", away.Server)
	e.away(errors.New("other"))
	assert.Equal(t, away.Since, e.Report().Since)
	assert.Equal(t, "other", e.Report().Reason)
	assert.Equal(t, 3, *changes)
	e.back()
	assert.False(t, e.Report().Away)
	assert.Empty(t, e.Report().Reason)
}

// Each exchange that fails while the keys are outdated closes what goes on with one.
func TestOutdated(t *testing.T) {
	e, _ := newExchange(t)
	n := 0
	e.settings.Outdated = func() { n++ }
	e.settings.Keys.Confirm(time.Now().Add(-time.Minute), time.Hour)
	e.once(context.Background())
	assert.Zero(t, n)
	e.settings.Keys.Confirm(time.Now().Add(-2*time.Hour), time.Hour)
	e.once(context.Background())
	assert.Equal(t, 1, n)
}

// Hosts of a large fleet come back one after another.
func TestPause(t *testing.T) {
	e, _ := newExchange(t)
	e.hosts = 1000
	for range 100 {
		assert.InDelta(t, period.Seconds(), e.pause().Seconds(), 0.11)
	}
	e.failed = 1
	longest := time.Duration(0)
	for range 100 {
		longest = max(longest, e.pause())
	}
	assert.Greater(t, longest, 10*time.Second)
	assert.LessOrEqual(t, longest, 22*time.Second)
}

// Hosts that all begin at the same time make their first connections one after another, by the number that the file has.
func TestHostsInTheCache(t *testing.T) {
	e, _ := newExchange(t)
	e.cache.path = filepath.Join(t.TempDir(), "keys.cache")
	assert.Zero(t, hostsIn(e.cache.path))
	e.hosts = 3
	e.keep(Answer{Keys: "a 1\n"}, time.Now())
	assert.Equal(t, 3, hostsIn(e.cache.path))
	e.hosts = 5
	e.keep(Answer{}, time.Now())
	assert.Equal(t, 3, hostsIn(e.cache.path))
	_, line, err := auth.Generate("a")
	require.NoError(t, err)
	require.NoError(t, e.settings.Keys.Replace(line))
	e.hosts = 1000
	e.keep(Answer{}, time.Now())
	assert.Equal(t, 1000, hostsIn(e.cache.path))
	assert.Less(t, e.late(), 21*time.Second)
}

// The time of the file is when the database has had the keys.
func TestCache(t *testing.T) {
	c := cache{path: filepath.Join(t.TempDir(), "keys.cache")}
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	age := func() time.Time {
		info, err := os.Stat(c.path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		return info.ModTime()
	}
	require.NoError(t, c.keep("a\n", at))
	assert.True(t, at.Equal(age()))
	require.NoError(t, c.keep("", at.Add(time.Second)))
	assert.True(t, at.Equal(age()), "not each second")
	require.NoError(t, c.keep("", at.Add(2*cacheEvery)))
	assert.True(t, at.Add(2*cacheEvery).Equal(age()))
	text, err := os.ReadFile(c.path)
	require.NoError(t, err)
	assert.Equal(t, "a\n", string(text))
}

// A revoked key does not come back: the file of a text that could not be written keeps its time, until it is written.
func TestCacheThatCannotBeWritten(t *testing.T) {
	c := cache{path: filepath.Join(t.TempDir(), "keys.cache")}
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	require.NoError(t, c.keep("revoked\n", at))
	obstacle := filepath.Join(c.path+".new", "x")
	require.NoError(t, os.MkdirAll(obstacle, 0o700))
	require.Error(t, c.keep("b\n", at.Add(time.Second)))
	require.Error(t, c.keep("", at.Add(2*cacheEvery)))
	info, err := os.Stat(c.path)
	require.NoError(t, err)
	assert.True(t, at.Equal(info.ModTime()))
	require.NoError(t, os.RemoveAll(c.path+".new"))
	require.NoError(t, c.keep("", at.Add(2*cacheEvery)))
	text, err := os.ReadFile(c.path)
	require.NoError(t, err)
	assert.Equal(t, "b\n", string(text))
}

// A source of usage that fails is logged once, and asked again.
func TestUsageThatCannotBeRead(t *testing.T) {
	e, _ := newExchange(t)
	source := &failing{err: errors.New("full")}
	e.usage = outgoing{source: source, logger: e.settings.Logger}
	for range 3 {
		assert.Empty(t, e.usage.rows(t.Context()))
	}
	assert.Equal(t, 3, source.asked)
	assert.True(t, e.usage.failing)
	source.err = nil
	assert.Len(t, e.usage.rows(t.Context()), 1)
	assert.False(t, e.usage.failing)
}

// failing is a source of usage.
type failing struct {
	err   error
	asked int
}

func (f *failing) Unsent(context.Context, int) ([]usage.Row, error) {
	if f.asked++; f.err != nil {
		return nil, f.err
	}
	return []usage.Row{{Period: "2026-01-31"}}, nil
}

func (f *failing) Sent(context.Context, []usage.Row) error { return f.err }

func (f *failing) Close() {}

// A request that finds no share while the database is away goes on at once, and the exchange of each second goes on.
func TestOnDemandWhileAway(t *testing.T) {
	e, _ := newExchange(t)
	e.hosts = 2
	e.once(t.Context())
	e.onDemand(t.Context())
	assert.Equal(t, 1, e.failed, "it asks no more than before")
}

func TestLinesOf(t *testing.T) {
	assert.Equal(t, map[string]string{"a": "a 1 # of alice", "b": "b 2"},
		linesOf(auth.ClosedLine()+"\n\n# none\na 1 # of alice\nb 2\n"))
	assert.Equal(t, auth.ClosedLine()+"\n", file(""))
}
