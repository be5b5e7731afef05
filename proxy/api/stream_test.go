package api

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
)

func TestKeepalive(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "", "text")},
		func(o *options) { o.Keepalive = 10 * time.Millisecond })
	quiet := make(chan []string, 2)
	for _, off := range [][2]string{{"/v1/chat/completions", "1"}, {"/v1/chat/completions?no_keepalive=1", ""}} {
		go func() {
			resp := r.do(t, http.MethodPost, off[0], hello(streaming), "X-No-Keepalive", off[1])
			quiet <- strings.Split(text(t, resp), "\n\n")
		}()
	}
	await(t, tick(t), func() bool { return r.pool.Inflight() == 2 }) // they are silent for as long as the third hears three comments

	body := bufio.NewReader(r.chatting(t, hello(streaming)).Body)
	for range 3 {
		assert.Equal(t, ": keepalive", frame(t, body))
	}
	close(gate)
	last := frame(t, body)
	for last == ": keepalive" {
		last = frame(t, body)
	}
	assert.Contains(t, last, `"role":"assistant"`, "a comment is no reason to leave out the role")
	for range 2 {
		for _, line := range received(t, quiet) {
			assert.False(t, strings.HasPrefix(line, ":"), line)
		}
	}
}

// tick is for states that nothing announces.
func tick(t *testing.T) <-chan struct{} {
	t.Helper()
	ticks, ticker := make(chan struct{}), time.NewTicker(time.Millisecond)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ticker.C:
				select {
				case ticks <- struct{}{}:
				case <-t.Context().Done():
					return
				}
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() { ticker.Stop(); <-done })
	return ticks
}

// The worker is not silent while the model thinks, but the client hears nothing.
func TestKeepaliveWhileTheModelThinks(t *testing.T) {
	for name, say := range map[string]func(*appservertest.Turn){
		"of events":          func(turn *appservertest.Turn) { turn.Reasoning("hm") },
		"of what makes none": func(turn *appservertest.Turn) { turn.Notify("unknown/notification", map[string]any{}) },
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
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
			}}, func(o *options) { o.Keepalive = 30 * time.Millisecond })
			body := bufio.NewReader(r.chatting(t, hello(streaming)).Body)
			for range 2 {
				assert.Equal(t, ": keepalive", frame(t, body))
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
	for kind, body := range map[string]string{"streamed": hello(streaming), "whole": hello("")} {
		t.Run(kind, func(t *testing.T) {
			began, interrupted := make(chan struct{}, 1), make(chan time.Time, 1)
			unsubscribed := make(chan struct{}, 1)
			r := newRig(t, &appservertest.Server{
				Handler: untilInterrupted(began, interrupted),
				Faults: map[string]appservertest.Fault{"thread/unsubscribe": func(context.Context,
					*appservertest.Peer, json.RawMessage) bool {
					unsubscribed <- struct{}{}
					return false
				}},
			})
			const soon = 100 * time.Millisecond
			quickest := bound
			for n := 0; n < 10 && quickest >= soon; n++ { // other work of the machine makes some of them late, not all
				id := fmt.Sprintf("gone-%d", n)
				conn := r.raw(t, body, "X-Request-Id: "+id+"\r\n")
				received(t, began)
				gone := time.Now()
				require.NoError(t, conn.Close())
				quickest = min(quickest, received(t, interrupted).Sub(gone))
				line := r.log.request(t, id)
				assert.Equal(t, "client_gone", line["outcome"])
				if kind == "whole" {
					assert.InDelta(t, 499, line["status"], 0)
				}
				assert.Zero(t, r.pool.Inflight())
				received(t, unsubscribed)
			}
			t.Logf("client gone to turn interrupted: %s", quickest)
			assert.Less(t, quickest, soon)
		})
	}
}

// leavers are the requests whose client leaves, of all APIs, which end alike.
var leavers = []struct{ name, path, body string }{
	{"chat/streamed", "/v1/chat/completions", hello(streaming)},
	{"chat/streamed choices", "/v1/chat/completions", hello(streaming + `"n":3,`)},
	{"chat/whole", "/v1/chat/completions", hello("")},
	{"chat/whole choices", "/v1/chat/completions", hello(`"n":3,`)},
	{"responses/streamed", "/v1/responses", asked(streaming, `"q"`)},
	{"responses/whole", "/v1/responses", asked("", `"q"`)},
	{"messages/streamed", "/v1/messages", greet(streaming)},
	{"messages/whole", "/v1/messages", greet("")},
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
					r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context,
						turn *appservertest.Turn) error {
						began <- struct{}{}
						return gated(nil, first)(ctx, turn)
					}}, func(o *options) {
						if first == "" {
							o.Keepalive = time.Millisecond
						}
					})
					conn := r.sent(t, tc.path, tc.body, "X-Request-Id: gone\r\n").(*net.TCPConn)
					received(t, began)
					answer := bufio.NewReader(conn)
					streamed := strings.Contains(tc.body, streaming)
					if streamed {
						_, err := answer.Peek(1)
						require.NoError(t, err)
					}
					require.NoError(t, leave(conn))
					if how == "half-closed" {
						leftWithoutError(t, answer, streamed)
					}
					assert.Equal(t, "client_gone", r.log.request(t, "gone")["outcome"])
					assert.NotContains(t, r.log.String(), "request failed")
					assert.NotContains(t, r.log.String(), `"level":"ERROR"`)
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
	body := text(t, resp)
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

// raw sends a chat request over a connection of the test's own.
func (r *rig) raw(t *testing.T, body, header string) net.Conn {
	t.Helper()
	return r.sent(t, "/v1/chat/completions", body, header)
}

// sent is raw for any path.
func (r *rig) sent(t *testing.T, path, body, header string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(bound)))
	header = "Host: localhost\r\nContent-Type: application/json\r\n" + header
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", path, header, len(body), body)
	require.NoError(t, err)
	return conn
}

func TestSlowClientIsGivenUp(t *testing.T) {
	for path, body := range map[string]string{"/v1/chat/completions": hello(streaming), "/v1/messages": greet(streaming)} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
				defer close(ended)
				m, much := turn.Begin(""), strings.Repeat("x", 64<<10)
				for ctx.Err() == nil {
					m.Delta(much)
				}
				return ctx.Err()
			}}, func(o *options) { o.IdleTimeout = 4 * time.Second }) // within which a busy worker says something
			r.sent(t, path, body, "X-Request-Id: slow\r\n") // and never reads
			received(t, ended)
			assert.Contains(t, []any{"client_gone", "slow_client"}, r.log.request(t, "slow")["outcome"])
			assert.Zero(t, r.pool.Inflight())
		})
	}
}
