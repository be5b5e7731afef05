package apitest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/runner/api/wire"
)

// faults is a test that keeps its errors.
type faults struct {
	testing.TB
	all []string
}

func (f *faults) Errorf(format string, args ...any) {
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// judged returns the faults that the judge finds in a request, or in its answer.
func judged(t *testing.T, method, target, body string, answer http.HandlerFunc) string {
	f := &faults{TB: t}
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequest(method, target, nil)
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	Judge(f, answer).ServeHTTP(httptest.NewRecorder(), r)
	return strings.Join(f.all, "\n")
}

func TestJudge(t *testing.T) {
	empty := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		reply(w, http.StatusOK, wire.Sessions{Sessions: []wire.Session{}})
	}
	refused := func(w http.ResponseWriter, _ *http.Request) { refuse(w, wire.NotFound, "no", "yes") }
	assert.Empty(t, judged(t, "GET", "/v1/sessions?limit=3&state=idle", "", empty))
	assert.Empty(t, judged(t, "GET", "/v1/sessions", "", refused))
	assert.Empty(t, judged(t, "POST", "/v1/sessions", `{"commands":[{"args":["a"]}]}`, refused))
	for want, given := range map[string][3]string{
		"no such operation":               {"DELETE", "/v1/sessions", ""},
		"no parameter page":               {"GET", "/v1/sessions?page=1", ""},
		"the parameter limit: ":           {"GET", "/v1/sessions?limit=0", ""},
		"the parameter state: ":           {"GET", "/v1/sessions?state=gone", ""},
		"the parameter id: ":              {"GET", "/v1/sessions/A", ""},
		"additional properties 'command'": {"POST", "/v1/sessions", `{"command":[]}`},
		"missing property 'commands'":     {"POST", "/v1/sessions", `{}`},
		"no body of the type":             {"POST", "/v1/sessions", ""},
		"it has no body":                  {"GET", "/v1/status", "{}"},
	} {
		assert.Contains(t, judged(t, given[0], given[1], given[2], empty), want)
	}
	for want, answer := range map[string]http.HandlerFunc{
		"it has no status 201":           func(w http.ResponseWriter, _ *http.Request) { reply(w, 201, wire.Sessions{}) },
		"got null, want array":           func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, wire.Sessions{}) },
		`no body of the type "text/pla`:  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusInternalServerError) },
		"value must be one of 'invalid_": func(w http.ResponseWriter, _ *http.Request) { refuse(w, "gone", "", "") },
	} {
		assert.Contains(t, judged(t, "GET", "/v1/sessions", "", answer), want)
	}
}
