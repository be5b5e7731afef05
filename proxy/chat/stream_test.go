package chat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

func TestKeepalive(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "", "text")},
		func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
	quiet := make(chan []string, 2)
	for _, off := range [][2]string{{"/v1/chat/completions", "1"}, {"/v1/chat/completions?no_keepalive=1", ""}} {
		go func() {
			resp := r.Do(t, http.MethodPost, off[0], apitest.Hello(apitest.Streaming), "X-No-Keepalive", off[1])
			quiet <- strings.Split(apitest.Text(t, resp), "\n\n")
		}()
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 2 }) // they are silent for as long as the third hears three comments

	body := bufio.NewReader(r.Chatting(t, apitest.Hello(apitest.Streaming)).Body)
	for range 3 {
		assert.Equal(t, ": keepalive", apitest.Frame(t, body))
	}
	close(gate)
	last := apitest.Frame(t, body)
	for last == ": keepalive" {
		last = apitest.Frame(t, body)
	}
	assert.Contains(t, last, `"role":"assistant"`, "a comment is no reason to leave out the role")
	for range 2 {
		for _, line := range apitest.Received(t, quiet) {
			assert.False(t, strings.HasPrefix(line, ":"), line)
		}
	}
}

// The worker is not silent while the model thinks, but the client hears nothing.
func TestKeepaliveWhileTheModelThinks(t *testing.T) {
	for name, say := range map[string]func(*appservertest.Turn){
		"of events":          func(turn *appservertest.Turn) { turn.Reasoning("hm") },
		"of what makes none": func(turn *appservertest.Turn) { turn.Notify("unknown/notification", map[string]any{}) },
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
				thought := time.NewTicker(2 * time.Millisecond)
				defer thought.Stop()
				for {
					select {
					case <-thought.C:
						say(turn)
					case <-gate:
						turn.Text("done")
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			}}, func(o *apitest.Options) { o.Keepalive = 30 * time.Millisecond })
			body := bufio.NewReader(r.Chatting(t, apitest.Hello(apitest.Streaming)).Body)
			for range 2 {
				assert.Equal(t, ": keepalive", apitest.Frame(t, body))
			}
			close(gate)
		})
	}
}

// untilInterrupted sends text and tells when the turn was interrupted.
func untilInterrupted(began chan<- struct{}, interrupted chan<- time.Time) appservertest.Handler {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("text")
		began <- struct{}{}
		<-ctx.Done()
		interrupted <- time.Now()
		return ctx.Err()
	}
}

func TestClientGoes(t *testing.T) {
	for kind, body := range map[string]string{"streamed": apitest.Hello(apitest.Streaming), "whole": apitest.Hello("")} {
		t.Run(kind, func(t *testing.T) {
			began, interrupted := make(chan struct{}, 1), make(chan time.Time, 1)
			unsubscribed := make(chan struct{}, 1)
			r := apitest.NewRig(t, &appservertest.Server{
				Handler: untilInterrupted(began, interrupted),
				Faults: map[string]appservertest.Fault{"thread/unsubscribe": func(context.Context,
					*appservertest.Peer, json.RawMessage) bool {
					unsubscribed <- struct{}{}
					return false
				}},
			})
			const soon = 100 * time.Millisecond
			quickest := apitest.Bound
			for n := 0; n < 10 && quickest >= soon; n++ { // other work of the machine makes some of them late, not all
				id := fmt.Sprintf("gone-%d", n)
				conn := r.Raw(t, body, "X-Request-Id: "+id+"\r\n")
				apitest.Received(t, began)
				gone := time.Now()
				require.NoError(t, conn.Close())
				quickest = min(quickest, apitest.Received(t, interrupted).Sub(gone))
				line := r.Log.Request(t, id)
				assert.Equal(t, "client_gone", line["outcome"])
				if kind == "whole" {
					assert.InDelta(t, 499, line["status"], 0)
				}
				assert.Zero(t, r.Pool.Inflight())
				apitest.Received(t, unsubscribed)
			}
			t.Logf("client gone to turn interrupted: %s", quickest)
			assert.Less(t, quickest, soon)
		})
	}
}

// leavers are the requests whose client leaves, of all APIs, which end alike.
var leavers = []struct{ name, path, body string }{
	{"chat/streamed", "/v1/chat/completions", apitest.Hello(apitest.Streaming)},
	{"chat/streamed choices", "/v1/chat/completions", apitest.Hello(apitest.Streaming + `"n":3,`)},
	{"chat/whole", "/v1/chat/completions", apitest.Hello("")},
	{"chat/whole choices", "/v1/chat/completions", apitest.Hello(`"n":3,`)},
	{"responses/streamed", "/v1/responses", apitest.Asked(apitest.Streaming, `"q"`)},
	{"responses/whole", "/v1/responses", apitest.Asked("", `"q"`)},
	{"messages/streamed", "/v1/messages", apitest.Greet(apitest.Streaming)},
	{"messages/whole", "/v1/messages", apitest.Greet("")},
}

// A client that leaves is no fault of the service, and one that has only shut down
// its sending side reads neither an error nor an empty 200.
func TestClientLeaves(t *testing.T) {
	for _, tc := range leavers {
		for silence, first := range map[string]string{"text": "text", "keepalives": ""} {
			for how, leave := range map[string]func(*net.TCPConn) error{
				"half-closed": (*net.TCPConn).CloseWrite,
				"closed":      (*net.TCPConn).Close,
				"reset":       func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
			} {
				t.Run(tc.name+"/"+silence+"/"+how, func(t *testing.T) {
					began := make(chan struct{}, 3)
					r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context,
						turn *appservertest.Turn) error {
						began <- struct{}{}
						return apitest.Gated(nil, first)(ctx, turn)
					}}, func(o *apitest.Options) {
						if first == "" {
							o.Keepalive = time.Millisecond
						}
					})
					conn := r.Sent(t, tc.path, tc.body, "X-Request-Id: gone\r\n").(*net.TCPConn)
					apitest.Received(t, began)
					answer := bufio.NewReader(conn)
					streamed := strings.Contains(tc.body, apitest.Streaming)
					if streamed {
						_, err := answer.Peek(1)
						require.NoError(t, err)
					}
					require.NoError(t, leave(conn))
					if how == "half-closed" {
						leftWithoutError(t, answer, streamed)
					}
					assert.Equal(t, "client_gone", r.Log.Request(t, "gone")["outcome"])
					assert.NotContains(t, r.Log.String(), "request failed")
					assert.NotContains(t, r.Log.String(), `"level":"ERROR"`)
				})
			}
		}
	}
}

// leftWithoutError reads an answer whose client has shut down its sending side.
func leftWithoutError(t *testing.T, answer *bufio.Reader, streamed bool) {
	t.Helper()
	resp, err := http.ReadResponse(answer, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body := apitest.Text(t, resp)
	if !streamed {
		assert.Equal(t, 499, resp.StatusCode)
		assert.Empty(t, body)
		return
	}
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	for _, never := range []string{`"error":{`, "event: error", "response.failed", "[DONE]", "response.completed",
		"message_stop",
		`_reason":"`} {
		assert.NotContains(t, body, never)
	}
}

func TestSlowClientIsGivenUp(t *testing.T) {
	for path, body := range map[string]string{"/v1/chat/completions": apitest.Hello(apitest.Streaming), "/v1/messages": apitest.Greet(apitest.Streaming)} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
				defer close(ended)
				m, much := turn.Begin(""), strings.Repeat("x", 64<<10)
				for ctx.Err() == nil {
					m.Delta(much)
				}
				return ctx.Err()
			}}, func(o *apitest.Options) { o.IdleTimeout = 4 * time.Second }) // within which a busy worker says something
			r.Sent(t, path, body, "X-Request-Id: slow\r\n") // and never reads
			apitest.Received(t, ended)
			assert.Contains(t, []any{"client_gone", "slow_client"}, r.Log.Request(t, "slow")["outcome"])
			assert.Zero(t, r.Pool.Inflight())
		})
	}
}
