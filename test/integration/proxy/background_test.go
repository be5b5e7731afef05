package proxy

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// toText reads on to a text.
func toText(text string) func(bed.WireEvent) bool {
	return func(e bed.WireEvent) bool { return e.Delta == text }
}

// resumed is resume, which must succeed.
func resumed(b *bed.Bed, id string, after int, stop func(bed.WireEvent) bool) []bed.WireEvent {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	list, err := b.Resume(ctx, id, after, stop)
	require.NoError(b.T, err, bed.Raw(list))
	return list
}

// resuming is resumed beside the test, which the returned function waits for.
func resuming(b *bed.Bed, id string, after int, stop func(bed.WireEvent) bool) func() []bed.WireEvent {
	ctx, cancel := context.WithTimeout(context.Background(), bed.Bound)
	type outcome struct {
		list []bed.WireEvent
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		defer cancel()
		list, err := b.Resume(ctx, id, after, stop)
		ended <- outcome{list, err}
	}()
	return func() []bed.WireEvent {
		b.T.Helper()
		o := <-ended
		require.NoError(b.T, o.err, bed.Raw(o.list))
		return o.list
	}
}

// uncut is a response in the background whose first client stays to its end.
type uncut struct {
	id    string
	ended chan uncutEnd
}

type uncutEnd struct {
	list []bed.WireEvent
	err  error
}

// stream begins a response, and returns when its client has the text.
func stream(b *bed.Bed, prompt, text string) *uncut {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*bed.Bound)
	b.T.Cleanup(cancel)
	res, err := b.Call(ctx, http.MethodPost, "", bed.InBackground(true, prompt))
	require.NoError(b.T, err)
	if res.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(res.Body)
		require.Equal(b.T, http.StatusOK, res.StatusCode, string(answer))
	}
	u, begun := &uncut{ended: make(chan uncutEnd, 1)}, make(chan string, 1)
	go func() {
		defer res.Body.Close()
		id, wanted := "", toText(text)
		list, err := bed.ReadEvents(res.Body, func(e bed.WireEvent) bool {
			if e.Number == 0 {
				id = e.Answer.ID
			}
			if wanted(e) {
				begun <- id
			}
			return false
		})
		close(begun)
		u.ended <- uncutEnd{list, err}
	}()
	u.id = <-begun
	require.NotEmpty(b.T, u.id, "the stream has ended before its text")
	return u
}

// whole waits for the end of the uncut stream.
func (u *uncut) whole(t *testing.T) []bed.WireEvent {
	t.Helper()
	end := <-u.ended
	require.NoError(t, end.err)
	return end.list
}

// cut waits for the end of the process that served the stream.
func (u *uncut) cut(t *testing.T) []bed.WireEvent {
	t.Helper()
	end := <-u.ended
	require.Error(t, end.err, "%s", bed.Raw(end.list))
	return end.list
}

// assertSame asserts that a stored stream has these bytes, from its beginning and behind each of its events.
func assertSame(b *bed.Bed, id string, events []bed.WireEvent) {
	b.T.Helper()
	assert.Equal(b.T, bed.Raw(events), bed.Raw(resumed(b, id, -1, bed.ToTheEnd)))
	for i := range events {
		assert.Equal(b.T, bed.Raw(events[i+1:]), bed.Raw(resumed(b, id, i, bed.ToTheEnd)), "after %d", i)
	}
}
