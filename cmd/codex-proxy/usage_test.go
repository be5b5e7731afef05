package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/usagetable"
	"codex-proxy/proxy/usage"
)

func TestUsageCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), usage.FileName)
	show := func(args ...string) result {
		return try(t, append(append([]string{"usage"}, args...), "--database", path)...)
	}
	got := show()
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, "cannot open the database")

	s := usage.New(usage.Settings{Path: path, Retention: 400, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, s.Load(t.Context()))
	s.Add("alice", "gpt-5", usage.Share{Account: "default", Counts: usage.Counts{Requests: 2, InputTokens: 1234, CachedTokens: 1000, OutputTokens: 56, ReasoningTokens: 7}})
	s.Add("", "mini", usage.Share{Counts: usage.Counts{Requests: 1}})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(ended))
	day := time.Now().UTC().Format(time.DateOnly)

	assert.Equal(t, result{stdout: "KEY     MODEL  REQUESTS  INPUT  CACHED  OUTPUT  REASONING\n" +
		"(none)  mini   1         0      0       0       0\n" +
		"alice   gpt-5  2         1234   1000    56      7\n"}, show())
	assert.Equal(t, result{stdout: "DAY         REQUESTS  INPUT  CACHED  OUTPUT  REASONING\n" +
		day + "  3         1234   1000    56      7\n"}, show("--by", "day", "--since=1d"))
	assert.Equal(t, result{stdout: "ACCOUNT    REQUESTS  INPUT  CACHED  OUTPUT  REASONING\n" +
		"(unknown)  1         0      0       0       0\n" +
		"default    2         1234   1000    56      7\n"}, show("--by", "account"))
	assert.JSONEq(t, `{"since":"`+day+`","by":["account"],"usage":[
		{"requests":1,"input_tokens":0,"cached_tokens":0,"output_tokens":0,"reasoning_tokens":0},
		{"account":"default","requests":2,"input_tokens":1234,"cached_tokens":1000,"output_tokens":56,
			"reasoning_tokens":7}]}`, show("--by", "account", "--since=1d", "--json").stdout)
	assert.JSONEq(t, `{"since":"`+day+`","by":["key"],"usage":[
		{"requests":1,"input_tokens":0,"cached_tokens":0,"output_tokens":0,"reasoning_tokens":0},
		{"key":"alice","requests":2,"input_tokens":1234,"cached_tokens":1000,"output_tokens":56,"reasoning_tokens":7}]}`,
		show("--by", "key", "--since", "1d", "--json").stdout)
	hour := time.Now().UTC().Format("2006-01-02T15")
	assert.Equal(t, result{stdout: "HOUR           DAY         KEY     REQUESTS  INPUT  CACHED  OUTPUT  REASONING\n" +
		hour + "  " + day + "  (none)  1         0      0       0       0\n" +
		hour + "  " + day + "  alice   2         1234   1000    56      7\n"}, show("--by", "key,day,hour"))
	assert.Equal(t, "nothing was used\n", show("--since", "2999-01-01").stdout)
	assert.JSONEq(t, `{"since":"2999-01-01","by":["key","model"],"usage":[]}`, show("--since", "2999-01-01", "--json").stdout)
	for _, args := range [][]string{{"--since=soon"}, {"--since=0d"}, {"--by=worker"}, {"--by="}, {"more"}} {
		assert.Equal(t, exitUsage, show(args...).status, args)
	}
}

// A change of the local clock between two days moves neither of them in UTC.
func TestSinceIsInUTC(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	since, err := usagetable.ParseSince("7d", time.Date(2026, 4, 1, 1, 30, 0, 0, berlin)) // 23:30 UTC of the day before
	require.NoError(t, err)
	assert.Equal(t, "2026-03-25", since.UTC().Format(time.DateOnly))
}
