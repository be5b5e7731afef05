package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"codex-proxy/probes"
	"codex-proxy/proxy/openai"
)

// Handler serves one route. An error that it returns is written in the envelope, if no
// byte of the answer has left.
type Handler func(w http.ResponseWriter, r *http.Request, x *Exchange) error

// AnyMethod is the method of a route that takes all methods but OPTIONS, which the server
// answers.
const AnyMethod = "*"

// Route is one line of the route table. The path is matched exactly; {name} in it is one
// segment, {name...} at its end one or more. It is also the route's name in logs and metrics.
type Route struct {
	Method, Path string
	Access       Access
	Handler      Handler
	Form         Form // of errors
	// WebSocket has the route for requests that ask for a WebSocket, and for no others: to these it is not there.
	WebSocket bool
}

// AsksForWebSocket reports whether a request asks for a WebSocket (RFC 6455, 4.1).
func AsksForWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// pathValue is the value of a name in the path of a route.
type pathValue struct{ name, value string }

// match returns the values of the names in the path of the route.
func (rt Route) match(path string) (values []pathValue, ok bool) {
	for pattern := rt.Path; ; {
		before, after, variable := strings.Cut(pattern, "{")
		if !variable {
			return values, path == pattern
		}
		name, rest, _ := strings.Cut(after, "}")
		name, many := strings.CutSuffix(name, "...")
		if path, ok = strings.CutPrefix(path, before); !ok {
			return nil, false
		}
		end := strings.IndexByte(path, '/')
		if many || end < 0 {
			end = len(path)
		}
		if end == 0 {
			return nil, false
		}
		values, path, pattern = append(values, pathValue{name, path[:end]}), path[end:], rest
	}
}

func (rt Route) takes(method string) bool {
	switch rt.Method {
	case method:
		return true
	case http.MethodGet:
		return method == http.MethodHead
	case AnyMethod:
		return method != http.MethodOptions
	}
	return false
}

// routes is the route table.
type routes []Route

// operations are the routes of probes and metrics.
func operations(s Settings) routes {
	ready, live := plain(probes.ReadyHandler(s.Report)), plain(probes.LiveHandler(s.Report))
	metrics := plain(promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{Registry: s.Registry}))
	return routes{
		{Method: http.MethodGet, Path: "/livez", Access: Public, Handler: live},
		{Method: http.MethodGet, Path: "/readyz", Access: Public, Handler: ready},
		{Method: http.MethodGet, Path: "/healthz", Access: Public, Handler: ready},
		{Method: http.MethodGet, Path: "/health", Access: Public, Handler: ready},
		{Method: http.MethodGet, Path: "/metrics", Access: Operator, Handler: metrics},
	}
}

func plain(h http.Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request, _ *Exchange) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// find returns the route of a request, or an *openai.Error and the form of it.
func (rs routes) find(r *http.Request) (Route, error) {
	var there []Route
	for _, candidate := range rs {
		values, ok := candidate.match(r.URL.Path)
		if !ok || candidate.WebSocket && !AsksForWebSocket(r) {
			continue
		}
		if candidate.takes(r.Method) {
			for _, v := range values {
				r.SetPathValue(v.name, v.value)
			}
			return candidate, nil
		}
		there = append(there, candidate)
	}
	switch {
	case there == nil:
		return Route{Form: rs.meant(r.URL.Path).Form}, rs.notFound(r.URL.Path)
	case r.Method == http.MethodOptions:
		return Route{Method: http.MethodOptions, Path: there[0].Path, Access: Public,
			Handler: allowing(methods(there))}, nil
	default:
		return Route{Form: there[0].Form}, wrongMethod(r, methods(there))
	}
}

// methods are the methods that the routes of one path accept, for Allow.
func methods(routes []Route) string {
	all := []string{http.MethodOptions}
	for _, rt := range routes {
		if rt.Method == AnyMethod {
			continue // it answers none of them
		}
		all = append(all, rt.Method)
		if rt.Method == http.MethodGet {
			all = append(all, http.MethodHead)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// allowing answers OPTIONS. The access of the server adds the headers of CORS.
func allowing(allow string) Handler {
	return func(w http.ResponseWriter, _ *http.Request, _ *Exchange) error {
		w.Header().Set("Allow", allow)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// notFound names the path that was probably meant.
func (rs routes) notFound(path string) error {
	hint := "/v1/chat/completions, /v1/responses, /v1/completions, /v1/conversations, /v1/messages and /v1/models are served"
	if guess := rs.guess(path); guess != "" {
		hint = "did you mean " + guess + "?"
	}
	if len(path) > 128 {
		path = path[:128] + "…"
	}
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "not_found",
		Message: "there is no " + path + " here; " + hint,
	}
}

// guess is the path of a route that was probably meant; empty: no route. Most often the base URL has /v1 once too often
// or not at all, or a slash at the end.
func (rs routes) guess(path string) (meant string) {
	rest := strings.Trim(path, "/")
	for strings.HasPrefix(rest, "v1/") {
		rest = strings.TrimPrefix(rest, "v1/")
	}
	for _, guess := range []string{"/v1/" + rest, "/" + rest} {
		if guess != path && len(guess) <= 128 && rs.of(guess).Path != "" {
			meant = guess
		}
	}
	return meant
}

// meant is the route that was probably meant, or one that the path is below; the zero value: no route.
func (rs routes) meant(path string) Route {
	for _, rt := range rs {
		if rt.Method != AnyMethod && strings.HasPrefix(path, rt.Path+"/") {
			return rt
		}
	}
	return rs.of(rs.guess(path))
}

// of is a route of that path; the zero value: no route.
func (rs routes) of(path string) Route {
	for _, rt := range rs {
		if _, ok := rt.match(path); ok && rt.Method != AnyMethod && !rt.WebSocket {
			return rt
		}
	}
	return Route{}
}

func wrongMethod(r *http.Request, allow string) error {
	return &openai.Error{
		Status: http.StatusMethodNotAllowed, Type: openai.TypeInvalidRequest, Code: "method_not_allowed",
		Message: r.URL.Path + " takes " + allow, Header: http.Header{"Allow": {allow}},
	}
}
