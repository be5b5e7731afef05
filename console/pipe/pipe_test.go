package pipe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// joined is a client of a handler.
func joined(t *testing.T, handle Handler) (*Client, net.Conn) {
	t.Helper()
	theirs, ours := net.Pipe()
	c := NewClient(ours)
	served, ran := make(chan error, 1), make(chan struct{})
	go func() { served <- Serve(context.Background(), theirs, handle) }()
	go func() { c.Run(); close(ran) }()
	t.Cleanup(func() {
		assert.NoError(t, ours.Close())
		<-ran
		assert.NoError(t, <-served)
		assert.NoError(t, theirs.Close())
		_, err := c.Do(context.Background(), Order{Verb: "late"})
		assert.ErrorIs(t, err, ErrEnded)
	})
	return c, ours
}

func TestOrders(t *testing.T) {
	cancelled := make(chan struct{})
	c, _ := joined(t, func(ctx context.Context, o Order, send func(json.RawMessage) error) (json.RawMessage, error) {
		switch o.Verb {
		case "say":
			return json.Marshal(o.Words["text"])
		case "count":
			for range 10 {
				if err := send(json.RawMessage(`1`)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		case "wait":
			if err := send(json.RawMessage(`1`)); err != nil {
				return nil, err
			}
			<-ctx.Done()
			close(cancelled)
			return nil, ctx.Err()
		}
		return nil, errors.New("there is no order " + o.Verb)
	})
	got, err := c.Do(t.Context(), Order{Verb: "say", Words: map[string]string{"text": "hi\n"}})
	require.NoError(t, err)
	assert.JSONEq(t, `"hi\n"`, string(got))
	_, err = c.Do(t.Context(), Order{Verb: "sell"})
	require.EqualError(t, err, "there is no order sell")
	n := 0
	require.NoError(t, c.Stream(t.Context(), Order{Verb: "count"}, func(json.RawMessage) error { n++; return nil }))
	assert.Equal(t, 10, n)
	ctx, cancel := context.WithCancel(t.Context())
	err = c.Stream(ctx, Order{Verb: "wait"}, func(json.RawMessage) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	<-cancelled
	_, err = c.Do(t.Context(), Order{Verb: "say", Words: map[string]string{"text": strings.Repeat("x", maxOrder)}})
	require.EqualError(t, err, "the order is too long")
}

// A value that is too long ends its order, and no other: neither the last value nor one of a stream.
func TestLongAnswers(t *testing.T) {
	long, err := json.Marshal(strings.Repeat("x", maxAnswer))
	require.NoError(t, err)
	c, _ := joined(t, func(_ context.Context, o Order, send func(json.RawMessage) error) (json.RawMessage, error) {
		switch o.Verb {
		case "last":
			return long, nil
		case "stream":
			return nil, send(long)
		}
		return Encode(strings.Repeat("<", maxAnswer-100))
	})
	for _, verb := range []string{"last", "stream"} {
		_, err := c.Do(t.Context(), Order{Verb: verb})
		require.EqualError(t, err, errLong.Error(), verb)
	}
	got, err := c.Do(t.Context(), Order{Verb: "most"})
	require.NoError(t, err)
	assert.Len(t, got, maxAnswer-98)
}

// The order of a page that stalls ends, or it would run for nobody.
func TestOrderOfSlowReaderIsCancelled(t *testing.T) {
	sent, cancelled := make(chan struct{}), make(chan struct{})
	c, _ := joined(t, func(ctx context.Context, o Order, send func(json.RawMessage) error) (json.RawMessage, error) {
		if o.Verb == "last" {
			return nil, nil
		}
		for range 100 {
			if err := send(json.RawMessage(`1`)); err != nil {
				return nil, err
			}
		}
		close(sent)
		<-ctx.Done()
		close(cancelled)
		return nil, ctx.Err()
	})
	err := c.Stream(t.Context(), Order{Verb: "stream"}, func(json.RawMessage) error { <-sent; return nil })
	require.ErrorIs(t, err, ErrSlow)
	<-cancelled
	_, err = c.Do(t.Context(), Order{Verb: "last"})
	require.NoError(t, err)
}

// A server that is taken over by an attacker gets no further than the orders.
func TestHostileServer(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": "drain\n", "an endless line": strings.Repeat("x", 2*maxOrder) + "\n", "an array": "[]\n",
	} {
		theirs, ours := net.Pipe()
		served := make(chan error, 1)
		go func() {
			served <- Serve(context.Background(), theirs, func(
				context.Context, Order, func(json.RawMessage) error) (json.RawMessage, error) {
				t.Error("no order gets through")
				return nil, nil
			})
		}()
		go func() { _, _ = io.WriteString(ours, text) }()
		assert.Error(t, <-served, name)
		require.NoError(t, errors.Join(ours.Close(), theirs.Close()))
	}
}

func TestOrdersAreBounded(t *testing.T) {
	theirs, ours := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, theirs, func(
			ctx context.Context, _ Order, _ func(json.RawMessage) error) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}()
	go func() {
		for id := range maxOrders + 1 {
			line, _ := json.Marshal(request{ID: uint64(id), Order: Order{Verb: "wait"}})
			_, _ = ours.Write(append(line, '\n'))
		}
	}()
	var r reply
	require.NoError(t, json.NewDecoder(ours).Decode(&r))
	assert.Equal(t, reply{ID: maxOrders, End: true, Error: "too many orders at the same time"}, r)
	cancel()
	assert.NoError(t, <-served)
	require.NoError(t, ours.Close())
}
