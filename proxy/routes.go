package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"codex-proxy/probes"
	"codex-proxy/proxy/openai"
)

// access says who may use a route.
type access int

const (
	public   access = iota // anyone: probes must work without a secret
	keyed                  // a holder of an API key, if there are keys
	operator               // this machine itself, or a holder of an API key
)

// route is one line of the route table. The path is matched exactly, but for
// {id}, which stands for one part of it; it is also the route's name in logs and
// metrics.
type route struct {
	method, path string
	access       access
	handler      http.Handler
}

func (s *Server) routes() []route {
	ready, live := probes.ReadyHandler(s.Report), probes.LiveHandler(s.Report)
	metrics := promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{Registry: s.Registry})
	return []route{
		{http.MethodPost, "/v1/chat/completions", keyed, s.api(s.chat)},
		{http.MethodPost, "/v1/responses", keyed, s.api(s.createResponse)},
		{http.MethodGet, "/v1/responses", keyed, s.api(s.responsesSocket)},
		{http.MethodGet, "/v1/responses/{id}", keyed, s.api(s.response)},
		{http.MethodDelete, "/v1/responses/{id}", keyed, s.api(s.deleteResponse)},
		{http.MethodPost, "/v1/responses/{id}/cancel", keyed, s.api(s.cancelResponse)},
		{http.MethodGet, "/v1/responses/{id}/input_items", keyed, s.api(s.inputItems)},
		{http.MethodGet, "/v1/models", keyed, s.api(s.models)},
		{http.MethodGet, "/livez", public, live},
		{http.MethodGet, "/readyz", public, ready},
		{http.MethodGet, "/healthz", public, ready},
		{http.MethodGet, "/metrics", operator, metrics},
	}
}

// dispatch finds the route of a request; what has none is an error in the
// envelope, like any other.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r)
	route, err := s.find(r)
	if err == nil {
		x.route = route.path
		err = s.admit(route, r, x)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	route.handler.ServeHTTP(w, r)
}

func (s *Server) find(r *http.Request) (route, error) {
	var methods []string
	for _, candidate := range s.table {
		if !candidate.matches(r) {
			continue
		}
		if candidate.method == r.Method || candidate.method == http.MethodGet && r.Method == http.MethodHead {
			return candidate, nil
		}
		methods = append(methods, candidate.method)
		if candidate.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	if methods == nil {
		return route{}, notFound(r.URL.Path)
	}
	return route{}, wrongMethod(r, methods)
}

// matches compares the paths, and leaves the {id} of the route with the request.
func (c route) matches(r *http.Request) bool {
	before, after, parametric := strings.Cut(c.path, "{id}")
	if !parametric {
		return c.path == r.URL.Path
	}
	id, begins := strings.CutPrefix(r.URL.Path, before)
	id, ends := strings.CutSuffix(id, after)
	if !begins || !ends || id == "" || strings.Contains(id, "/") {
		return false
	}
	r.SetPathValue("id", id)
	return true
}

func notFound(path string) error {
	if len(path) > 128 {
		path = path[:128] + "…"
	}
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "not_found",
		Message: "there is no " + path + " here; /v1/chat/completions, /v1/responses and /v1/models are served",
	}
}

func wrongMethod(r *http.Request, methods []string) error {
	slices.Sort(methods)
	allow := strings.Join(methods, ", ")
	return &openai.Error{
		Status: http.StatusMethodNotAllowed, Type: openai.TypeInvalidRequest, Code: "method_not_allowed",
		Message: r.URL.Path + " takes " + allow, Header: http.Header{"Allow": {allow}},
	}
}
