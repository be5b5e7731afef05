package usage

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The outbox has what each row is in all, until it was sent; also what was counted before there was an outbox, and by a
// process that was killed.
func TestOutbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	count := func(shared bool, account string, requests int64) {
		s := New(Settings{Path: path, Retention: 400, Shared: shared, Registry: prometheus.NewRegistry()})
		require.NoError(t, s.Load(t.Context()))
		s.Add("alice", "m", Share{Account: account, Counts: Counts{Requests: requests, InputTokens: 10 * requests}})
		require.NoError(t, s.flush())
		require.NoError(t, s.db.Close())
	}
	box := NewOutbox(path)
	defer box.Close()
	_, err := box.Unsent(t.Context(), 10)
	require.Error(t, err)
	count(false, "one", 1)
	_, err = box.Unsent(t.Context(), 10)
	require.ErrorIs(t, err, errNoOutbox)

	sums := func() map[string]int64 {
		rows, err := box.Unsent(context.Background(), 100)
		require.NoError(t, err)
		of := map[string]int64{}
		for _, r := range rows {
			assert.NotEmpty(t, r.Source)
			assert.Equal(t, 10*r.Requests, r.InputTokens)
			kind := "day "
			if len(r.Period) > len("2006-01-02") {
				kind = "hour "
			}
			of[kind+r.Account] += r.Requests
		}
		return of
	}
	count(true, "one", 2)
	count(true, "", 4)
	assert.Equal(t, map[string]int64{"day one": 3, "hour one": 3, "day ": 4, "hour ": 4}, sums())

	rows, err := box.Unsent(t.Context(), 100)
	require.NoError(t, err)
	count(true, "one", 5) // while it is sent
	require.NoError(t, box.Sent(t.Context(), rows))
	assert.Equal(t, map[string]int64{"day one": 8, "hour one": 8}, sums())
	rows, err = box.Unsent(t.Context(), 100)
	require.NoError(t, err)
	require.NoError(t, box.Sent(t.Context(), rows))
	assert.Empty(t, sums())
	few, err := box.Unsent(t.Context(), 1)
	require.NoError(t, err)
	assert.Empty(t, few)
}

// What is forgotten has no counts, and does not stay.
func TestOutboxForgets(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s := New(Settings{Path: path, Retention: 400, Shared: true, Registry: prometheus.NewRegistry()})
	require.NoError(t, s.Load(t.Context()))
	s.Add("alice", "m", Share{Account: "one", Counts: Counts{Requests: 1}})
	require.NoError(t, s.flush())
	for _, table := range []string{"usage", "account_usage", "hour_usage"} {
		_, err := s.db.ExecContext(t.Context(), "DELETE FROM "+table)
		require.NoError(t, err)
	}
	box := NewOutbox(path)
	defer box.Close()
	rows, err := box.Unsent(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	assert.Equal(t, Counts{}, rows[0].Counts)
	require.NoError(t, box.Sent(t.Context(), rows))
	rows, err = box.Unsent(t.Context(), 100)
	require.NoError(t, err)
	assert.Empty(t, rows)
	require.NoError(t, s.db.Close())
}
