package api_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/session"
)

// Messages of all sizes come byte for byte, while the WebSocket itself sends other frames.
func TestLogSocketBesideControlFrames(t *testing.T) {
	b := newBed(t)
	s := b.create(`{"commands":[{"args":["make"]}]}`)
	u := b.started()
	w, closed := b.write(u)
	var want []byte
	for _, size := range []int{1, 108, 109, 110, 300, 65_518, 65_519, 65_520, 400_000} {
		text := make([]byte, size)
		for i := range text {
			text[i] = byte(rand.IntN(256))
		}
		want = append(want, text...)
		read, pipe, err := os.Pipe()
		require.NoError(t, err)
		var writer sync.WaitGroup
		writer.Go(func() {
			_, err := pipe.Write(text)
			assert.NoError(t, err)
			assert.NoError(t, pipe.Close())
		})
		require.NoError(t, w.Copy(logs.Stdout, read))
		writer.Wait()
		require.NoError(t, read.Close())
	}
	closed()
	u.End(&session.Result{Exited: true, Bytes: int64(len(want))})

	conn, _, err := websocket.Dial(t.Context(), fmt.Sprintf("http://codex-runner/v1/sessions/%s/commands/1/logs?follow=true", s.ID),
		&websocket.DialOptions{HTTPClient: b.client})
	require.NoError(t, err)
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	var pings sync.WaitGroup
	pings.Go(func() {
		for conn.Ping(ctx) == nil {
		}
	})
	defer pings.Wait()
	defer cancel()
	var got []byte
	for {
		kind, message, err := conn.Read(t.Context())
		require.NoError(t, err)
		if kind == websocket.MessageText {
			break
		}
		chunk, err := wire.ParseChunk(message)
		require.NoError(t, err)
		assert.EqualValues(t, len(got), chunk.Offset)
		assert.False(t, chunk.Time.IsZero())
		got = append(got, chunk.Data...)
	}
	assert.True(t, bytes.Equal(want, got))
}
