package accountserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/test/modelserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a home that is logged in to an account.
type client struct {
	server  *Server
	access  string
	refresh string
}

func logIn(t *testing.T, s *Server, name string) *client {
	t.Helper()
	var login struct {
		Tokens struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		}
	}
	require.NoError(t, json.Unmarshal(s.Account(name).Login(), &login))
	return &client{s, login.Tokens.Access, login.Tokens.Refresh}
}

func (c *client) do(method, url, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+c.access)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	c.server.Handler().ServeHTTP(w, r)
	return w
}

func (c *client) turn(items ...string) *httptest.ResponseRecorder {
	items = append(items, `{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}`)
	return c.do(http.MethodPost, "https://chatgpt.com/backend-api/codex/responses",
		`{"model":"m","input":[`+strings.Join(items, ",")+`]}`)
}

func (c *client) usage(t *testing.T) (status int, used float64, reached bool) {
	t.Helper()
	w := c.do(http.MethodGet, "https://chatgpt.com/backend-api/wham/usage", "")
	var body struct {
		Limits struct {
			Reached bool `json:"limit_reached"`
			Primary struct {
				Used float64 `json:"used_percent"`
			} `json:"primary_window"`
		} `json:"rate_limit"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	return w.Code, body.Limits.Primary.Used, body.Limits.Reached
}

func TestTurnsUseUpTheQuotaOfTheirAccount(t *testing.T) {
	s := New(modelserver.New("m"), "a", "b")
	a, b := logIn(t, s, "a"), logIn(t, s, "b")
	s.Account("a").Allow(2)
	for range 2 {
		require.Equal(t, http.StatusOK, a.turn().Code)
	}
	status, used, reached := a.usage(t)
	assert.Equal(t, http.StatusOK, status)
	assert.InDelta(t, 100, used, 0)
	assert.True(t, reached)
	w := a.turn()
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Contains(t, w.Body.String(), `"type":"usage_limit_reached"`)
	assert.Equal(t, "100", w.Header().Get("X-Codex-Primary-Used-Percent"))
	assert.Equal(t, http.StatusOK, b.turn().Code)

	s.Account("a").Refuse(InStream)
	w = a.turn()
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "response.failed")
	s.Account("a").Refuse(MidText)
	assert.Contains(t, a.turn().Body.String(), RefusedText)

	s.Account("a").Change(func(q *Quota) { q.Credits = &Credits{Has: true, Balance: "1"} })
	assert.Equal(t, "true", a.turn().Header().Get("X-Codex-Credits-Has-Credits"))
	record := s.Account("a").Record()
	assert.Len(t, record.Turns, 6)
	assert.Equal(t, 3, record.Refused())
	assert.Len(t, record.Readings, 1)
	assert.Equal(t, "hello", record.Turns[0].Text)
}

func TestAWindowIsEmptyAfterItsReset(t *testing.T) {
	s := New(modelserver.New("m"), "a")
	a := logIn(t, s, "a")
	s.Account("a").Exhaust(time.Now().Add(time.Hour))
	require.Equal(t, http.StatusTooManyRequests, a.turn().Code)
	s.Account("a").Change(func(q *Quota) { q.Windows[0].Resets = time.Now() })
	assert.Equal(t, http.StatusOK, a.turn().Code)
	assert.True(t, s.Account("a").Quota().Windows[0].Resets.After(time.Now().Add(4*time.Hour)))
	s.Account("a").Exhaust(time.Now().Add(time.Hour))
	s.Account("a").Reset()
	assert.Equal(t, http.StatusOK, a.turn().Code)
}

func TestLogins(t *testing.T) {
	s := New(modelserver.New("m"), "a")
	a := logIn(t, s, "a")
	exchange := func() (int, string) {
		w := a.do(http.MethodPost, "https://auth.openai.com/oauth/token",
			fmt.Sprintf(`{"grant_type":"refresh_token","refresh_token":%q}`, a.refresh))
		var reply struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		}
		body := w.Body.Bytes()
		require.NoError(t, json.Unmarshal(body, &reply))
		if w.Code == http.StatusOK {
			a.access, a.refresh = reply.Access, reply.Refresh
		}
		return w.Code, string(body)
	}
	s.Account("a").Expire()
	assert.Equal(t, http.StatusUnauthorized, a.turn().Code)
	old := a.refresh
	status, _ := exchange()
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, http.StatusOK, a.turn().Code)

	a.refresh, old = old, a.refresh
	status, body := exchange()
	assert.Equal(t, http.StatusUnauthorized, status, "a refresh token works once")
	assert.Contains(t, body, "refresh_token_reused")
	a.refresh = old
	s.Account("a").Invalidate()
	status, _, _ = a.usage(t)
	assert.Equal(t, http.StatusUnauthorized, status)
	status, _ = exchange()
	assert.Equal(t, http.StatusUnauthorized, status)
	s.Account("a").Validate()
	assert.Equal(t, http.StatusOK, a.turn().Code)
}

// Encrypted reasoning fits only the account that received it.
func TestForeignReasoning(t *testing.T) {
	s := New(modelserver.New("m"), "a", "b")
	a, b := logIn(t, s, "a"), logIn(t, s, "b")
	require.NoError(t, s.models.Script("reasoning why", "text because"))
	var item string
	for line := range bytes.Lines(a.turn().Body.Bytes()) {
		var event struct{ Item json.RawMessage }
		doc, _ := bytes.CutPrefix(line, []byte("data: "))
		if json.Unmarshal(doc, &event) == nil && bytes.Contains(event.Item, []byte("encrypted_content")) {
			item = string(event.Item)
		}
	}
	require.NotEmpty(t, item)
	assert.Equal(t, http.StatusOK, a.turn(item).Code)
	assert.Zero(t, s.Account("a").Record().Foreign())
	assert.Equal(t, http.StatusBadRequest, b.turn(item).Code)
	assert.Equal(t, 1, s.Account("b").Record().Foreign())
}

// Readings that hang get their answer when the account answers again.
func TestReadings(t *testing.T) {
	s := New(modelserver.New("m"), "a")
	a := logIn(t, s, "a")
	s.Account("a").Read(Failing)
	status, _, _ := a.usage(t)
	assert.Equal(t, http.StatusInternalServerError, status)
	s.Account("a").Read(Hanging)
	done := make(chan int)
	go func() { done <- a.do(http.MethodGet, "https://chatgpt.com/backend-api/wham/usage", "").Code }()
	require.NoError(t, s.Wait(t.Context(), func() bool { return len(s.Account("a").Record().Readings) == 2 }))
	s.Account("a").Read(Answered)
	assert.Equal(t, http.StatusOK, <-done)
}

func TestControl(t *testing.T) {
	s := New(modelserver.New("m"), "a")
	a := logIn(t, s, "a")
	act := func(method, path, body string) string {
		w := a.do(method, "https://localhost"+path, body)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		doc, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		return string(doc)
	}
	act(http.MethodPost, "/_accounts/a/exhaust?for=1h", "")
	assert.Equal(t, http.StatusTooManyRequests, a.turn().Code)
	assert.Contains(t, act(http.MethodGet, "/_accounts", ""), `"refused":true`)
	act(http.MethodPost, "/_accounts/a/reset", "")
	assert.Equal(t, http.StatusOK, a.turn().Code)
	act(http.MethodPost, "/_accounts/a/invalidate", "")
	assert.Equal(t, http.StatusUnauthorized, a.turn().Code)
	act(http.MethodPost, "/_accounts/a/validate", "")
	act(http.MethodPut, "/_accounts/a/quota", `{"plan":"plus","windows":[{"length":3600000000000,"used":100,
		"resets":"2100-01-01T00:00:00Z"}]}`)
	assert.Equal(t, http.StatusTooManyRequests, a.turn().Code)
	assert.Contains(t, act(http.MethodGet, "/_accounts/a/quota", ""), `"plus"`)
}
