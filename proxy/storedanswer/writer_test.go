package storedanswer

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/turn"
)

// A client that reads nothing is cut off; one that reads slowly is not, however long
// that takes.
func TestClientsThatDoNotReadAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reads := range []bool{false, true} {
			client, server := net.Pipe()
			memory := limits.NewMemory(1<<20, 0)
			answers := Writer{Answers: answer.New(time.Minute, prometheus.NewRegistry())}
			began, ended := time.Now(), make(chan error, 1)
			go func() {
				w := &pipeWriter{server}
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				err := answers.Send(w, r, &proxy.Exchange{}, Piece{Stored: &Bytes{
					Size: 10 * answer.Slice, Held: memory.Hold(""),
					Read: func(_ context.Context, _, n int64) ([]byte, error) { return make([]byte, n), nil },
				}})
				if !reads {
					assert.Equal(t, time.Minute, time.Since(began))
				}
				ended <- err
			}()
			for range 10 {
				<-time.After(59 * time.Second)
				if reads {
					_, err := io.ReadFull(client, make([]byte, answer.Slice))
					require.NoError(t, err)
				}
			}
			err := <-ended
			if reads {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, turn.ErrClientGone)
			}
			assert.Zero(t, memory.Bytes())
		}
	})
}

// What is deleted before its bytes are read is an error, and no answer that is cut off.
func TestPiecesThatAreDeleted(t *testing.T) {
	memory := limits.NewMemory(1<<20, 0)
	piece := func(body string, err error) Piece {
		return Piece{Stored: &Bytes{
			Size: 2, Held: memory.Hold(""),
			Read: func(context.Context, int64, int64) ([]byte, error) { return []byte(body), err },
		}}
	}
	answers := Writer{Answers: answer.New(time.Minute, prometheus.NewRegistry())}
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	err := answers.Send(w, r, &proxy.Exchange{}, piece("{}", nil), piece("", stored.ErrNotFound))
	require.ErrorIs(t, err, stored.ErrNotFound)
	assert.Empty(t, w.Body)
	require.NoError(t, answers.Send(w, r, &proxy.Exchange{}, Piece{Text: "["}, piece("{}", nil), piece("[]", nil), Piece{Text: "]"}))
	assert.Equal(t, "[{}[]]", w.Body.String())
	assert.Zero(t, memory.Bytes())
}

// pipeWriter is an answer on a connection of net.Pipe, without a head.
type pipeWriter struct{ net.Conn }

// Header implements http.ResponseWriter.
func (*pipeWriter) Header() http.Header { return http.Header{} }

// WriteHeader implements http.ResponseWriter.
func (*pipeWriter) WriteHeader(int) {}
