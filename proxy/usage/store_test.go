package usage_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/internal/sqlite"
	"codex-proxy/internal/sqlite/sqlitetest"
	"codex-proxy/proxy/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func store(path string) (*usage.Store, *prometheus.Registry, *bytes.Buffer) {
	registry, log := prometheus.NewRegistry(), new(bytes.Buffer)
	settings := usage.Settings{
		Path: path, Retention: 3, Registry: registry, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	return usage.New(settings), registry, log
}

// run runs the store until the returned function is called, which flushes it.
func run(t *testing.T, s *usage.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-ran)
	}
}

var some = usage.Counts{Requests: 1, InputTokens: 20, CachedTokens: 5, OutputTokens: 7, ReasoningTokens: 3}

// Two processes count the same key, as after a reload: nothing is lost, and each has
// the counts of the other after its next write.
func TestUsageSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), usage.FileName)
	old, registry, _ := store(path)
	require.NoError(t, old.Load(t.Context()))
	stopOld := run(t, old)
	old.Add("alice", "gpt-5", usage.Share{Account: "default", Counts: some})
	old.Add("alice", "gpt-5", usage.Share{Account: "default", Counts: some})
	old.Add("alice", "mini", usage.Share{Account: "default", Counts: some})
	old.Add("", "gpt-5", usage.Share{Account: "default", Counts: some})
	assert.Equal(t, int64(81), old.Today("alice"), "before anything is written")
	fresh, _, _ := store(path)
	require.NoError(t, fresh.Load(t.Context()))
	stopFresh := run(t, fresh)
	stopOld()
	fresh.Add("alice", "gpt-5", usage.Share{Account: "default", Counts: some})
	stopFresh()
	assert.Equal(t, int64(4*27), fresh.Today("alice"))
	assert.Zero(t, fresh.Today("bob"))

	restarted, _, _ := store(path)
	require.NoError(t, restarted.Load(t.Context()))
	assert.Equal(t, int64(4*27), restarted.Today("alice"))
	run(t, restarted)()

	day := time.Now().UTC().Format(time.DateOnly)
	sums, err := usage.Read(t.Context(), path, time.Now(), []string{"model", "day", "key"})
	require.NoError(t, err)
	assert.Equal(t, []usage.Sum{
		{Day: day, Model: "gpt-5", Counts: some},
		{Day: day, Key: "alice", Model: "gpt-5", Counts: usage.Counts{
			Requests: 3, InputTokens: 60, CachedTokens: 15, OutputTokens: 21, ReasoningTokens: 9,
		}},
		{Day: day, Key: "alice", Model: "mini", Counts: some},
	}, sums)
	sums, err = usage.Read(t.Context(), path, time.Now(), nil)
	require.NoError(t, err)
	require.Len(t, sums, 1)
	assert.Equal(t, int64(5), sums[0].Requests)
	sums, err = usage.Read(t.Context(), path, time.Now().AddDate(0, 0, 2), nil)
	require.NoError(t, err)
	assert.Empty(t, sums)

	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// Usage is written soon, also while the service runs.
func TestUsageIsReadWhileTheServiceRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), usage.FileName)
	s, _, _ := store(path)
	require.NoError(t, s.Load(t.Context()))
	defer run(t, s)()
	s.Add("alice", "gpt-5", usage.Share{Account: "default", Counts: some})
	require.Eventually(t, func() bool {
		sums, err := usage.Read(t.Context(), path, time.Now(), []string{"key"})
		return assert.NoError(t, err) && len(sums) == 1 && sums[0].Counts == some
	}, 30*time.Second, 20*time.Millisecond)
}

func TestOldUsageIsDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), usage.FileName)
	s, _, _ := store(path)
	require.NoError(t, s.Load(t.Context()))
	run(t, s)()
	db, err := sqlite.Open(t.Context(), path, "")
	require.NoError(t, err)
	for ago := range 6 {
		day := time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly)
		_, err = db.Exec("INSERT INTO usage VALUES (?, 'a', 'm', 1, 1, 1, 1, 1)", day)
		require.NoError(t, err)
		_, err = db.Exec("INSERT INTO account_usage VALUES (?, 'a', 'm', 'w', 1, 1, 1, 1, 1)", day)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	s, _, _ = store(path)
	require.NoError(t, s.Load(t.Context()))
	run(t, s)()
	sums, err := usage.Read(t.Context(), path, time.Now().AddDate(0, 0, -100), []string{"day"})
	require.NoError(t, err)
	assert.Len(t, sums, 3, "today and the two days before")
	sums, err = usage.Read(t.Context(), path, time.Now().AddDate(0, 0, -100), []string{"day", "account"})
	require.NoError(t, err)
	assert.Len(t, sums, 3)
}

// A database that cannot be written loses nothing as long as the process lives.
func TestUnwritableDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, usage.FileName)
	s, registry, log := store(path)
	require.Error(t, s.Load(t.Context()))
	stop := run(t, s)
	s.Add("alice", "gpt-5", usage.Share{Account: "default", Counts: some})
	require.Eventually(t, func() bool { return failures(t, registry) > 0 }, 30*time.Second, 20*time.Millisecond)
	assert.Equal(t, int64(27), s.Today("alice"))
	require.NoError(t, os.Mkdir(dir, 0o700))
	stop()
	assert.Empty(t, log.String(), "the error of Load is logged by its caller, once")
	sums, err := usage.Read(t.Context(), path, time.Now(), []string{"key"})
	require.NoError(t, err)
	require.Len(t, sums, 1)
	assert.Equal(t, some, sums[0].Counts)
	_, err = usage.Read(t.Context(), filepath.Join(dir, "none"), time.Now(), nil)
	assert.ErrorContains(t, err, "cannot open the database")
}

// Run tries again to begin a database, also without new usage, and counts the tries.
// The error for its empty file names the likely cause.
func TestFullDiskAtStart(t *testing.T) {
	dir, room := sqlitetest.FullDisk(t)
	path := filepath.Join(dir, usage.FileName)
	synctest.Test(t, func(t *testing.T) {
		s, registry, log := store(path)
		require.Error(t, s.Load(t.Context()))
		assert.InDelta(t, 1, failures(t, registry), 0)
		_, err := usage.Read(t.Context(), path, time.Now(), nil)
		require.ErrorContains(t, err, "nothing could be written to it yet: is the disk full?")
		assert.NotContains(t, err.Error(), "schema")
		stop := run(t, s)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Greater(t, failures(t, registry), 4.0)
		room()
		time.Sleep(time.Minute)
		synctest.Wait()
		sums, err := usage.Read(t.Context(), path, time.Now(), nil)
		require.NoError(t, err)
		assert.Empty(t, sums)
		stop()
		assert.Empty(t, log.String())
	})
}

func failures(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "codex_usage_write_failures_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// Memory is bounded, also while the database cannot be written.
func TestOverflowIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, registry, log := store("")
		for range 10_005 {
			time.Sleep(24 * time.Hour) // a row of its own
			s.Add("a", "m", usage.Share{Account: "default", Counts: some})
		}
		assert.NoError(t, testutil.GatherAndCompare(registry, bytes.NewBufferString(
			"# HELP codex_usage_dropped_total Requests that are missing in the usage database "+
				"because it could not be written for too long.\n"+
				"# TYPE codex_usage_dropped_total counter\ncodex_usage_dropped_total 5\n"),
			"codex_usage_dropped_total"))
		assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("usage is lost")), "logged once")
	})
}

// Without a database the day is counted in memory.
func TestDayInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := store("")
		stop := run(t, s)
		for range 3 {
			s.Add("a", "m", usage.Share{Account: "default", Counts: some})
			time.Sleep(time.Hour)
		}
		assert.Equal(t, int64(81), s.Today("a"))
		time.Sleep(24 * time.Hour)
		assert.Zero(t, s.Today("a"))
		s.Add("a", "m", usage.Share{Account: "default", Counts: some})
		time.Sleep(time.Minute)
		assert.Equal(t, int64(27), s.Today("a"))
		stop()
	})
	var none *usage.Store
	none.Add("a", "m", usage.Share{Account: "default", Counts: some})
	assert.Zero(t, none.Today("a"))
}

// The database of 0.1.0, as that program makes and writes it.
const (
	schemaOf010 = `CREATE TABLE usage (
	day TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
	requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
	output_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL,
	PRIMARY KEY (day, key, model)
) WITHOUT ROWID`
	upsertOf010 = `INSERT INTO usage VALUES (?, 'alice', 'gpt-5', 1, 20, 5, 7, 3) ON CONFLICT DO UPDATE SET
	requests = requests + excluded.requests, input_tokens = input_tokens + excluded.input_tokens,
	cached_tokens = cached_tokens + excluded.cached_tokens, output_tokens = output_tokens + excluded.output_tokens,
	reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens`
)

// A database goes from 0.1.0 to this version, back and here again: no use is lost or
// counted twice, and the use that 0.1.0 counted has no account.
func TestUsageByAccount(t *testing.T) {
	path := filepath.Join(t.TempDir(), usage.FileName)
	older := func() {
		db, err := sqlite.Open(t.Context(), path, schemaOf010)
		require.NoError(t, err, "0.1.0 can use it")
		_, err = db.Exec(upsertOf010, time.Now().UTC().Format(time.DateOnly))
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	newer := func() {
		s, _, _ := store(path)
		require.NoError(t, s.Load(t.Context()))
		stop := run(t, s)
		s.Add("alice", "gpt-5", usage.Share{Account: "a", Counts: some}, usage.Share{Account: "b", Counts: usage.Counts{OutputTokens: 2}})
		s.Add("", "mini", usage.Share{Account: "b", Counts: some})
		s.Add("alice", "gpt-5", usage.Share{Counts: some})
		stop()
	}
	read := func(by ...string) []usage.Sum {
		sums, err := usage.Read(t.Context(), path, time.Now(), by)
		require.NoError(t, err)
		return sums
	}
	times := func(n int64) usage.Counts {
		return usage.Counts{Requests: n, InputTokens: 20 * n, CachedTokens: 5 * n, OutputTokens: 7 * n, ReasoningTokens: 3 * n}
	}
	with := func(c usage.Counts, output int64) usage.Counts {
		c.OutputTokens += output
		return c
	}

	older()
	assert.Equal(t, []usage.Sum{{Counts: some}}, read("account"), "before the first start of this version")
	newer()
	assert.Equal(t, []usage.Sum{
		{Counts: times(2)}, {Account: "a", Counts: some}, {Account: "b", Counts: with(some, 2)},
	}, read("account"))
	older()
	newer()
	assert.Equal(t, []usage.Sum{
		{Model: "mini", Account: "b", Counts: times(2)},
		{Key: "alice", Model: "gpt-5", Counts: times(4)},
		{Key: "alice", Model: "gpt-5", Account: "a", Counts: times(2)},
		{Key: "alice", Model: "gpt-5", Account: "b", Counts: usage.Counts{OutputTokens: 4}},
	}, read("account", "model", "key"))
	assert.Equal(t, []usage.Sum{{Counts: with(times(8), 4)}}, read())
	assert.Equal(t, []usage.Sum{{Model: "gpt-5", Counts: with(times(6), 4)}, {Model: "mini", Counts: times(2)}},
		read("model"))
	s, _, _ := store(path)
	require.NoError(t, s.Load(t.Context()))
	assert.Equal(t, int64(6*27+4), s.Today("alice"), "limits count each token once")
	run(t, s)()
}
