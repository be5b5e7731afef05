package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/appserver/appservertest"
)

func TestKeepalive(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "", "text")}, func(o *options) { o.Keepalive = 10 * time.Millisecond })
	quiet := make(chan []string, 2)
	for _, off := range [][2]string{{"/v1/chat/completions", "1"}, {"/v1/chat/completions?no_keepalive=1", ""}} {
		go func() {
			resp := r.do(t, http.MethodPost, off[0], hello(streaming), "X-No-Keepalive", off[1])
			quiet <- strings.Split(text(t, resp), "\n\n")
		}()
	}
	await(t, tick(t), func() bool { return r.Pool.Inflight() == 2 }) // they are silent for as long as the third hears three comments

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
				Faults: map[string]appservertest.Fault{"thread/unsubscribe": func(context.Context, *appservertest.Peer, json.RawMessage) bool {
					unsubscribed <- struct{}{}
					return false
				}},
			})
			quickest := bound
			for _, id := range []string{"gone-1", "gone-2", "gone-3"} { // other work of the machine makes one of them late, not all
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
				assert.Zero(t, r.Pool.Inflight())
				received(t, unsubscribed)
			}
			t.Logf("client gone to turn interrupted: %s", quickest)
			assert.Less(t, quickest, 100*time.Millisecond)
		})
	}
}

// A client that has shut down its sending side gets no empty 200.
func TestClientHalfCloses(t *testing.T) {
	began, interrupted := make(chan struct{}, 1), make(chan time.Time, 1)
	r := newRig(t, &appservertest.Server{Handler: untilInterrupted(began, interrupted)})
	conn := r.raw(t, hello(""), "")
	received(t, began)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, 499, resp.StatusCode)
	received(t, interrupted)
}

// raw sends a chat request over a connection of the test's own.
func (r *rig) raw(t *testing.T, body, header string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(bound)))
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
	require.NoError(t, err)
	return conn
}

func TestSlowClientIsGivenUp(t *testing.T) {
	ended := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		defer close(ended)
		m, much := turn.Begin(""), strings.Repeat("x", 64<<10)
		for ctx.Err() == nil {
			m.Delta(much)
		}
		return ctx.Err()
	}}, func(o *options) { o.IdleTimeout = 2 * time.Second }) // within which a busy worker says something
	r.raw(t, hello(streaming), "X-Request-Id: slow\r\n") // and never reads
	received(t, ended)
	assert.Contains(t, []any{"client_gone", "slow_client"}, r.log.request(t, "slow")["outcome"])
	assert.Zero(t, r.Pool.Inflight())
}
