package links

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"codex-proxy/internal/direct"
	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
	"codex-proxy/remotes/authz"
)

// Endpoint serves the routes of remotes.
type Endpoint struct {
	Links   *Links
	Answers *answer.Writer
}

// Routes are GET /v1/remotes, and the WebSockets to remotes. codex's TUI takes no path in its --remote: for it the
// root leads to the one remote of its key.
func (e *Endpoint) Routes() []proxy.Route {
	return []proxy.Route{
		{Method: http.MethodGet, Path: "/v1/remotes", Access: proxy.Keyed, Handler: e.list},
		{Method: http.MethodGet, Path: "/v1/remotes/{name}", Access: proxy.Keyed, Handler: e.attach},
		{Method: http.MethodGet, Path: "/", Access: proxy.Keyed, Handler: e.attach, WebSocket: true},
	}
}

// remoteList is the answer to GET /v1/remotes.
type remoteList struct {
	Object string      `json:"object"`
	Data   []remoteRow `json:"data"`
}

type remoteRow struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	Role   string `json:"role"`
	State  string `json:"state"`
	Status string `json:"status,omitempty"`
}

// list serves GET /v1/remotes: the remotes that the key may attach to.
func (e *Endpoint) list(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	l := remoteList{Object: "list", Data: []remoteRow{}}
	for _, name := range x.Key.Limits.RemoteNames() {
		viewer, _ := x.Key.Limits.Remote(name)
		state := e.Links.State(r.Context(), name)
		l.Data = append(l.Data, remoteRow{
			ID: name, Object: "remote", Role: roleOf(viewer).String(), State: state.Name, Status: state.Status,
		})
	}
	return e.Answers.JSON(w, l)
}

func roleOf(viewer bool) authz.Role {
	if viewer {
		return authz.Viewer
	}
	return authz.Owner
}

// attach opens a link. Its request ends with the answer: the link has an end, and a line in the journal, of its own.
func (e *Endpoint) attach(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	name, err := pick(r.PathValue("name"), x.Key)
	if err != nil {
		return err
	}
	if !proxy.AsksForWebSocket(r) {
		return &openai.Error{
			Status: http.StatusUpgradeRequired, Type: openai.TypeInvalidRequest, Code: "upgrade_required",
			Message: "GET " + r.URL.Path +
				" is a WebSocket for codex: codex --remote wss://HOST:PORT --remote-auth-token-env VARIABLE",
			Header: http.Header{"Upgrade": {"websocket"}},
		}
	}
	viewer, _ := x.Key.Limits.Remote(name)
	k := &link{passport: &passport{
		Remote: name, Key: x.Key.Name, KeyID: x.Key.ID(), Viewer: viewer, Since: time.Now(),
	}, settings: e.Links.Settings}
	if err := e.Links.reserve(k.Key, k.Remote); err != nil {
		return err
	}
	if err := e.open(w, r, k); err != nil {
		e.Links.release(k.Key, k.Remote)
		return err
	}
	x.Status = http.StatusSwitchingProtocols
	e.Links.begin(k)
	return nil
}

// open connects both sides of a link.
func (e *Endpoint) open(w http.ResponseWriter, r *http.Request, k *link) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the deadline of a body; net/http's connections have deadlines
	remote, head, rest, err := e.Links.connect(r, k)
	if err != nil {
		return err
	}
	raw, buffers, err := control.Hijack()
	if err != nil {
		return errors.Join(err, remote.Close())
	}
	client, ok := direct.Under(raw).(conn)
	if !ok {
		return errors.Join(fmt.Errorf("a connection is a %T", raw), raw.Close(), remote.Close())
	}
	k.client, k.remote = client, remote
	_ = client.SetDeadline(time.Time{}) // a closed connection fails at its next use
	k.ToRemote, _ = buffers.Peek(buffers.Reader.Buffered())
	k.ToRemote = append([]byte(nil), k.ToRemote...)
	k.follow(rest)
	k.ToClient = append(head, rest...)
	return nil
}

// pick returns the remote that a request is for; name is the one in its path, or empty.
func pick(name string, key auth.Key) (string, error) {
	own := key.Limits.RemoteNames()
	switch _, may := key.Limits.Remote(name); {
	case key.Name == "":
		return "", denied("a remote needs an API key: have the operator make one with " +
			"`codex-proxy keys add NAME --remotes=REMOTE`, and send it as Authorization: Bearer KEY")
	case len(own) == 0:
		return "", denied("this API key may attach to no remote; the operator allows it one: codex-proxy keys set " +
			key.Name + " --remotes=NAME")
	case may:
		return name, nil
	case name == "" && len(own) == 1:
		return own[0], nil
	case name == "":
		return "", &openai.Error{
			Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Code: "remote_ambiguous",
			Message: "this API key may attach to " + strings.Join(own, ", ") +
				", and / leads to the one remote of a key: " +
				"connect to /v1/remotes/NAME, or have the operator make a key for each remote",
		}
	}
	return "", notFound("this API key may attach to no remote " + printable(name) + ", only to " +
		strings.Join(own, ", ") +
		"; the operator allows more: codex-proxy keys set " + key.Name + " --remotes=LIST")
}

func printable(name string) string { return fmt.Sprintf("%.40q", name) }

func denied(message string) error {
	return &openai.Error{
		Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: "remote_not_allowed", Message: message,
	}
}

func notFound(message string) error {
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "remote_not_found", Message: message,
	}
}
