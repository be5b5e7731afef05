package proxy

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy/turn"
	"codex-proxy/proxy/usage"
)

// Each account has the tokens of its own turns, and the first one has the request.
func TestSharesOfARequest(t *testing.T) {
	x := &Exchange{}
	assert.Empty(t, x.shares(), "no worker accepted it")
	x.Turn = turn.Report{Worker: "a", Attempts: 1}
	assert.Equal(t, []usage.Share{{Account: "a", Counts: usage.Counts{Requests: 1}}}, x.shares())

	x.Turn = turn.Report{}
	for _, worker := range []string{"b", "a", "b"} {
		x.Turn.Add(turn.Report{Worker: worker, Thread: "t", Attempts: 1, Usage: &appserver.Usage{OutputTokens: 5}})
	}
	x.Turn.Add(turn.Report{}) // a choice without a worker
	of := map[string]int64{}
	for _, share := range x.shares() {
		of[share.Account] += share.OutputTokens
	}
	assert.Equal(t, map[string]int64{"a": 5, "b": 10}, of)
	assert.Equal(t, "b", x.shares()[0].Account)
	assert.Equal(t, usage.Counts{Requests: 1, OutputTokens: 15}, x.counts())
}
