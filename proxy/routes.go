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
	operator               // who is on this machine (fromHere), or a holder of an API key
)

// route is one line of the route table. The path is matched exactly, {name} in
// it stands for one segment, {name...} for one or more; it is also the route's
// name in logs and metrics.
type route struct {
	method, path string
	access       access
	handler      http.Handler
}

// match returns what stands for the name in the path, if the path has one.
func (rt route) match(path string) (name, value string, ok bool) {
	before, rest, variable := strings.Cut(rt.path, "{")
	if !variable {
		return "", "", path == rt.path
	}
	name, after, _ := strings.Cut(rest, "}")
	name, many := strings.CutSuffix(name, "...")
	value, begins := strings.CutPrefix(path, before)
	value, ends := strings.CutSuffix(value, after)
	return name, value, begins && ends && value != "" && (many || !strings.Contains(value, "/"))
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
		{http.MethodGet, "/v1/models/{id...}", keyed, s.api(s.model)},
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
	s.allowOrigin(w.Header(), r)
	route, err := s.find(r)
	if err == nil {
		x.route = route.path
		if route.access == keyed { // not what probes and scrapes ask for
			x.span = s.Traces.Begin(r.Header, x.began)
		}
		err = s.admit(route, r, x)
		x.held, x.made = s.memory.hold(x.key), s.memory.hold(x.key)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	route.handler.ServeHTTP(w, r)
}

func (s *Server) find(r *http.Request) (route, error) {
	var there []route
	for _, candidate := range s.table {
		name, value, ok := candidate.match(r.URL.Path)
		if !ok {
			continue
		}
		if candidate.method == r.Method || candidate.method == http.MethodGet && r.Method == http.MethodHead {
			if name != "" {
				r.SetPathValue(name, value)
			}
			return candidate, nil
		}
		there = append(there, candidate)
	}
	switch {
	case there == nil:
		return route{}, s.notFound(r.URL.Path)
	case r.Method == http.MethodOptions:
		return route{http.MethodOptions, there[0].path, public, allowing(methods(there))}, nil
	default:
		return route{}, wrongMethod(r, methods(there))
	}
}

// methods are those that the routes of one path take, for Allow.
func methods(routes []route) string {
	all := []string{http.MethodOptions}
	for _, rt := range routes {
		all = append(all, rt.method)
		if rt.method == http.MethodGet {
			all = append(all, http.MethodHead)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// allowing answers OPTIONS. What a browser wants to know beyond the methods is
// answered by allowOrigin.
func allowing(allow string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", allow)
		w.WriteHeader(http.StatusNoContent)
	})
}

// notFound names the path that was probably meant: most often the base URL has
// /v1 once too often or not at all, or there is a slash at the end.
func (s *Server) notFound(path string) error {
	hint := "/v1/chat/completions, /v1/responses and /v1/models are served"
	rest := strings.Trim(path, "/")
	for strings.HasPrefix(rest, "v1/") {
		rest = strings.TrimPrefix(rest, "v1/")
	}
	for _, guess := range []string{"/v1/" + rest, "/" + rest} {
		if guess != path && len(guess) <= 128 && slices.ContainsFunc(s.table, func(rt route) bool { _, _, ok := rt.match(guess); return ok }) {
			hint = "did you mean " + guess + "?"
		}
	}
	if len(path) > 128 {
		path = path[:128] + "…"
	}
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "not_found",
		Message: "there is no " + path + " here; " + hint,
	}
}

func wrongMethod(r *http.Request, allow string) error {
	return &openai.Error{
		Status: http.StatusMethodNotAllowed, Type: openai.TypeInvalidRequest, Code: "method_not_allowed",
		Message: r.URL.Path + " takes " + allow, Header: http.Header{"Allow": {allow}},
	}
}
