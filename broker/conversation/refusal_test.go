package conversation

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/broker/upstream"
)

// scripted answers each request over a WebSocket with the events, and those by HTTP with "by HTTP".
func scripted(t *testing.T, events ...string) (c *Conversations, ask func(times int) (status int, header http.Header, body string)) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "by HTTP")
			return
		}
		assert.Equal(t, beta, r.Header.Get("OpenAI-Beta"))
		w.Header().Set("X-Reasoning-Included", "true")
		w.Header().Set("X-Codex-Turn-State", "of another turn")
		conn, err := websocket.Accept(w, r, nil)
		if !assert.NoError(t, err) {
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1)
		for {
			if _, _, err := conn.Read(r.Context()); err != nil {
				return
			}
			for _, event := range events {
				if event == "" {
					return
				}
				if conn.Write(r.Context(), websocket.MessageText, []byte(event)) != nil {
					return
				}
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	transport := upstream.New(server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, 0)
	t.Cleanup(transport.Close)
	b := &bed{T: t, Conversations: New(transport, slog.New(slog.DiscardHandler)), upstream: transport}
	runIn(t, b.Conversations)
	return b.Conversations, func(times int) (status int, header http.Header, body string) {
		t.Helper()
		for range times {
			text, err := json.Marshal(map[string]any{"store": false, "stream": true, "prompt_cache_key": "k",
				"input": []any{strings.Repeat("x", longRequest)}})
			require.NoError(t, err)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/responses", strings.NewReader(string(text)))
			require.NoError(t, err)
			res, err := b.RoundTrip(r)
			require.NoError(t, err)
			read, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			status, header, body = res.StatusCode, res.Header, string(read)
			b.ready()
		}
		return status, header, body
	}
}

// An error in place of an answer is an answer by HTTP with its status, for codex and for whoever adds the login.
func TestErrorBeforeAnAnswer(t *testing.T) {
	_, ask := scripted(t, `{"type":"error","status":429,"error":{"type":"usage_limit_reached","resets_at":7},"headers":{"X-Codex-Primary-Used-Percent":"100","Retry-After":3,"Content-Length":"1"}}`)
	_, _, body := ask(1)
	assert.Equal(t, "by HTTP", body)
	status, header, body := ask(1)
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Equal(t, "100", header.Get("X-Codex-Primary-Used-Percent"))
	assert.Equal(t, "3", header.Get("Retry-After"))
	assert.Empty(t, header.Get("Content-Length"))
	assert.JSONEq(t, `{"error":{"type":"usage_limit_reached","resets_at":7}}`, body)
}

// A request that the endpoint does not take over a WebSocket goes by HTTP. After some no WebSocket is made.
func TestDoesNotFit(t *testing.T) {
	for _, event := range []string{`{"type":"error","status":400,"error":{"code":"unknown_parameter"}}`, `{"type":"error"}`} {
		c, ask := scripted(t, event)
		for range 4 {
			_, _, body := ask(1)
			assert.Equal(t, "by HTTP", body)
		}
		assert.False(t, c.rest.IsZero(), event)
	}
	c, ask := scripted(t, `{"type":"error","status":400,"error":{"code":"previous_response_not_found"}}`)
	_, _, body := ask(4)
	assert.Equal(t, "by HTTP", body)
	assert.True(t, c.rest.IsZero(), "that says nothing of WebSockets")
}

// A WebSocket that ends at the time of a request has not served it.
func TestEndsAtARequest(t *testing.T) {
	_, ask := scripted(t, "")
	_, _, body := ask(2)
	assert.Equal(t, "by HTTP", body)
}

// The quota comes before the answer, where codex finds it in an answer by HTTP; an error in the middle is one that codex
// reads in such an answer; the headers of the upgrade go on, without what is of its moment.
func TestEvents(t *testing.T) {
	_, ask := scripted(t,
		`{"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":42.5,"window_minutes":300,"reset_at":9},"secondary":null},"credits":{"has_credits":true,"unlimited":false,"balance":"1"}}`,
		"{\"type\":\"response.created\",\n\"response\":{\"id\":\"r\"}}",
		`{"type":"error","status":500,"error":{"code":"server_error","message":"m"}}`)
	status, header, body := ask(2)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "42.5", header.Get("X-Codex-Primary-Used-Percent"))
	assert.Equal(t, "300", header.Get("X-Codex-Primary-Window-Minutes"))
	assert.Equal(t, "9", header.Get("X-Codex-Primary-Reset-At"))
	assert.Empty(t, header.Get("X-Codex-Secondary-Used-Percent"))
	assert.Equal(t, "true", header.Get("X-Codex-Credits-Has-Credits"))
	assert.Equal(t, "true", header.Get("X-Reasoning-Included"))
	assert.Empty(t, header.Get("X-Codex-Turn-State"))
	assert.Equal(t, "event: response.created\ndata: {\"type\":\"response.created\", \"response\":{\"id\":\"r\"}}\n\n"+
		"event: response.failed\ndata: {\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"m\"},\"status\":\"failed\"},\"type\":\"response.failed\"}\n\n",
		body)
}

// The quota is found behind other events of codex's own, which stay in their order. One that comes in the middle of the
// answer is reported. That of a model is not the account's.
func TestQuotaAmongEvents(t *testing.T) {
	const before = `{"type":"codex.response.metadata","x":1}`
	ofModel := strings.Replace(strings.Replace(quota, "42", "99", 1), "{", `{"metered_limit_name":"codex_other",`, 1)
	inPipe(t, func(p *piped) {
		p.answer = func(conn *websocket.Conn) bool {
			return sends(conn, before, ofModel, quota, created, ofModel, quota, completed)
		}
	}, func(p *piped) {
		var reported []string
		p.limits = func(h http.Header) { reported = append(reported, h.Get("X-Codex-Primary-Used-Percent")) }
		p.ask("k")
		res, err := p.try("k")
		require.NoError(t, err)
		assert.Equal(t, "42", res.Header.Get("X-Codex-Primary-Used-Percent"))
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.True(t, strings.HasPrefix(string(text), "event: codex.response.metadata\ndata: "+before+"\n\nevent: response.created\n"),
			string(text))
		assert.Equal(t, []string{"42"}, reported)
	})
	many := `{"type":"codex.more","x":"` + strings.Repeat("x", mostBefore/2) + `"}`
	inPipe(t, func(p *piped) {
		p.answer = func(conn *websocket.Conn) bool { return sends(conn, many, many, many, completed) }
	}, func(p *piped) {
		p.ask("k")
		assert.Equal(t, 4, strings.Count(p.ask("k"), "event: "), "no more are held than there is room for")
	})
}

// A request that the endpoint refuses by HTTP, too, takes no WebSockets away.
func TestWrongRequest(t *testing.T) {
	inPipe(t, func(p *piped) {
		p.answer = func(conn *websocket.Conn) bool {
			return sends(conn, `{"type":"error","status":400,"error":{"code":"unsupported_value"}}`)
		}
	}, func(p *piped) {
		for n := range mostRefused + 1 {
			p.status = http.StatusOK
			key := fmt.Sprint(n)
			p.ask(key)
			p.status = http.StatusBadRequest
			assert.Equal(t, "by HTTP", p.ask(key))
		}
		assert.True(t, p.rest.IsZero())
		assert.EqualValues(t, mostRefused+1, p.tries.Load())
	})
}

// A refusal that is due to a fault, to the load or to the login is no hour without WebSockets, and no further WebSocket
// is asked for meanwhile.
func TestRestAfterARefusal(t *testing.T) {
	for status, rest := range map[int]time.Duration{
		http.StatusInternalServerError: shortRest, http.StatusBadGateway: shortRest, http.StatusServiceUnavailable: shortRest,
		http.StatusGatewayTimeout: shortRest, 529: shortRest, http.StatusForbidden: shortRest,
		http.StatusTooManyRequests: shortRest, http.StatusUpgradeRequired: longRest, http.StatusNotFound: longRest,
	} {
		inPipe(t, func(p *piped) {
			p.refuse = status
			for n := range firstCredit { // none is tried yet
				res, err := p.try(fmt.Sprint(n))
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
			}
			assert.Len(t, p.asked, firstCredit)
		}, func(p *piped) {
			synctest.Wait()
			assert.EqualValues(t, 1, p.tries.Load(), status)
			assert.Equal(t, rest, p.resting(), status)
			after(rest - time.Second)
			assert.EqualValues(t, 1, p.tries.Load(), status)
			p.refuse = 0
			after(time.Second)
			p.ask("0")
			assert.Contains(t, p.ask("0"), "response.completed", status)
		})
	}
}
