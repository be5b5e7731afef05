package hands

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An id is a UUIDv7, which sorts by its time with those of codex.
func TestTurnID(t *testing.T) {
	var ids []string
	for n := range 100 {
		ids = append(ids, newTurnID(time.UnixMilli(1_700_000_000_000+int64(n))))
	}
	assert.True(t, slices.IsSorted(ids))
	for _, id := range ids {
		assert.Regexp(t, regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`), id)
	}
	assert.Equal(t, "018bcfe5-6800-7", ids[0][:15])
}

// An interrupt of a command's own turn is served, one of the model's turn ends the commands in it and goes on to codex.
func TestInterrupt(t *testing.T) {
	running := ""
	g := &Gate{Hands: newHands(t), Turn: func(thread string) string {
		assert.Equal(t, "t", thread)
		return running
	}}
	begin := func() (*personsTurn, context.Context) {
		ctx, interrupt := context.WithCancelCause(t.Context())
		return shells{g}.newTurn(&person{}, shellParams{Thread: "t", Command: "ls"}, interrupt), ctx
	}
	params := func(thread, turn string) []byte {
		text, err := json.Marshal(map[string]string{"threadId": thread, "turnId": turn})
		require.NoError(t, err)
		return text
	}
	own, ended := begin()
	for _, other := range [][]byte{params("t", "another"), params("u", own.id), params("t", ""), []byte("[]")} {
		assert.False(t, g.Serves(interruptMethod, other), string(other))
	}
	require.True(t, g.Serves(interruptMethod, params("t", own.id)))
	p := &person{}
	require.NoError(t, g.Serve(t.Context(), p, interruptMethod, params("t", own.id)))
	assert.Len(t, p.answers, 1)
	assert.ErrorIs(t, context.Cause(ended), errInterrupted)
	shells{g}.forget(own)
	assert.False(t, g.Serves(interruptMethod, params("t", own.id)), "it has ended")

	running = "turn of the model"
	within, ended := begin()
	assert.False(t, g.Serves(interruptMethod, params("t", running)), "codex has to end its turn")
	_, err := g.Settle(t.Context(), p, interruptMethod, params("t", running))
	require.NoError(t, err)
	assert.ErrorIs(t, context.Cause(ended), errInterrupted)
	p.sent = nil
	within.of = p
	within.start()
	within.end(Ended{}, "text", true)
	require.Len(t, p.sent, 2, "no turn begins or ends")
	for _, sent := range p.sent {
		assert.Contains(t, sent, `"turnId":"turn of the model"`)
	}
	own.of, p.sent = p, nil
	own.start()
	own.end(Ended{Status: 1}, "text", true)
	require.Len(t, p.sent, 4)
	assert.Contains(t, p.sent[3], `"status":"interrupted"`)
}

// A text fits as JSON, whatever is in it, and ends with a mark if it was cut.
func TestFitted(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("<&>", 1000), strings.Repeat("\x1b[1m", 1000), strings.Repeat("\xff", 3000),
		strings.Repeat("é\u2028\"\\\n", 1000), strings.Repeat("日本", 1000),
	} {
		var whole, cut strings.Builder
		encode := func(to *strings.Builder, text string) int {
			e := json.NewEncoder(to)
			e.SetEscapeHTML(false)
			require.NoError(t, e.Encode(text))
			return to.Len() - len("\"\"\n")
		}
		size := encode(&whole, text)
		assert.Equal(t, text, fitted(text, size), "%.10q", text)
		got := fitted(text, size/2)
		taken := encode(&cut, got)
		assert.LessOrEqual(t, taken, size/2, "%.10q", text)
		assert.Greater(t, taken, size/2-100)
		assert.True(t, strings.HasSuffix(got, cutMark))
		assert.True(t, strings.HasPrefix(text, strings.TrimSuffix(got, cutMark)))
	}
	assert.Empty(t, fitted("", 0))
}

// Each stream has the cap, also one that is passed on as it is written.
func TestCap(t *testing.T) {
	type piece struct {
		stream, data string
		last         bool
	}
	message := func(stream, data string) message {
		text, err := json.Marshal(output{Stream: stream, Chunk: []byte(data)})
		require.NoError(t, err)
		return message{Method: "process/output", Params: text}
	}
	var got []piece
	r := running{process: Process{Cap: 5, Output: func(stream string, data []byte, last bool) {
		got = append(got, piece{stream, string(data), last})
	}}}
	for _, m := range []struct{ stream, data string }{
		{"stdout", "abc"}, {"stderr", "12345"}, {"stdout", "defg"}, {"stdout", "h"}, {"stderr", ""},
	} {
		r.take(message(m.stream, m.data))
	}
	assert.Equal(t, []piece{
		{"stdout", "abc", false}, {"stderr", "12345", false}, {"stdout", "de", true}, {"stderr", "", false},
	}, got)
	assert.True(t, r.ended.Cut)
	r = running{process: Process{Cap: 5}}
	for range 3 {
		r.take(message("stdout", "abc"))
	}
	assert.Equal(t, "abcab", string(r.ended.Stdout))
	assert.True(t, r.ended.Cut)
}
