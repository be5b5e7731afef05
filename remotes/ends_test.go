package remotes

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/turnerror"
	"codex-proxy/remotes/codexthread"
)

// The turns that codex itself has failed are counted, of those that no user has interrupted.
func TestEnds(t *testing.T) {
	var e Ends
	of := func(message, kind string, status int) *turnerror.Error {
		return &turnerror.Error{Message: message, Info: turnerror.Info{Kind: kind, HTTPStatus: status}}
	}
	for _, turn := range []codexthread.Turn{
		{Status: codexthread.Completed},
		{Status: codexthread.Interrupted}, {Status: codexthread.Aborted},
		{Status: "failed", Error: of("no such table: threads", turnerror.KindOther, 0)},
		{Status: "failed", Error: of("unexpected status 502 Bad Gateway", turnerror.KindConnectionFailed, 502)},
		{Status: "failed", Error: of("stream disconnected before completion: closed", turnerror.KindOther, 0)},
		{Status: "failed", Error: of("", turnerror.KindUsageLimitExceeded, 0)},
	} {
		e.add(turn)
	}
	assert.Equal(t, Ends{Turns: 5, Faults: 1, Fault: "no such table: threads"}, e)
}
