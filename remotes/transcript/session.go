package transcript

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
	"codex-proxy/remotes/attach"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/remoteapi"
)

// Remote is a remote of this machine.
type Remote struct {
	Name    string
	Owners  string // the path of its socket
	Viewers string // of its socket for viewers
	Version string // of this program
	// ReadOnly only watches: the questions of a turn go to others.
	ReadOnly bool
	// Key is the name of the API key of a person on another machine; Owners and Viewers are the network socket then.
	Key string

	program string // its name for codex; empty: codex-proxy
}

// session is a connection to codex of the remote.
type session struct {
	*rpc.Conn
	ran chan error
}

// handlers take the messages of codex. They run on the reading goroutine, and must not block.
type handlers struct {
	asked    func(method string, id, params json.RawMessage)
	notified func(method string, params json.RawMessage)
}

// unused are the notifications that codex is asked not to send: most of a turn's.
var unused = []string{
	"account/rateLimits/updated", "command/exec/outputDelta", "item/commandExecution/outputDelta",
	"item/commandExecution/terminalInteraction", "item/fileChange/outputDelta", "item/fileChange/patchUpdated",
	"item/mcpToolCall/progress", "item/plan/delta", "item/reasoning/summaryPartAdded",
	"item/reasoning/summaryTextDelta", "item/reasoning/textDelta", "process/outputDelta",
	"rawResponse/completed", "rawResponseItem/completed",
	"thread/tokenUsage/updated", "turn/diff/updated", "turn/plan/updated",
}

// header names the key of a person on another machine.
func (r Remote) header(role authz.Role) http.Header {
	if r.Key == "" {
		return nil
	}
	return authz.NetworkHeader(r.Key, role)
}

// open attaches to the remote in a role; a remote that is asleep starts.
func (r Remote) open(ctx context.Context, role authz.Role, h handlers) (*session, error) {
	socket := r.Owners
	if role == authz.Viewer {
		socket = r.Viewers
	}
	c, err := rpc.Dial(ctx, socket, rpc.Options{
		Header: r.header(role),
		OnRequest: func(m rpc.Message) error {
			if h.asked != nil {
				h.asked(m.Method, append(json.RawMessage(nil), m.ID...), append(json.RawMessage(nil), m.Params...))
			}
			return nil
		},
		OnNotification: func(m rpc.Message) {
			if h.notified != nil {
				h.notified(m.Method, append(json.RawMessage(nil), m.Params...))
			}
		},
	})
	if errors.Is(err, fs.ErrPermission) {
		return nil, attach.Refused(r.Name, socket)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot attach to the remote %[1]s: %[2]w; "+
			"codex-proxy remotes check %[1]s has the reason", r.Name, err)
	}
	s := &session{Conn: c, ran: make(chan error, 1)}
	go func() { s.ran <- c.Run(ctx) }()
	hello := wire.Initialize{ClientInfo: wire.ClientInfo{Name: cmp.Or(r.program, "codex-proxy"), Version: r.Version},
		Capabilities: wire.Capabilities{ExperimentalAPI: true, OptOutNotificationMethods: unused}}
	var result json.RawMessage
	if err = c.Call(ctx, "initialize", hello, &result); err == nil {
		err = c.Notify(ctx, "initialized", nil)
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("the remote %s refuses: %w", r.Name, err)
	}
	return s, nil
}

// end closes the connection, and returns when nothing of it runs any more.
func (s *session) end() {
	s.Close(nil)
	<-s.ran //nolint:errcheck // it was to end
}

// resume subscribes to a thread. codex repeats its open questions to an owner then.
func (s *session) resume(ctx context.Context, thread string, turns int) (r resumed, err error) {
	params := struct {
		Thread  string `json:"threadId"`
		Exclude bool   `json:"excludeTurns"`
		Page    page   `json:"initialTurnsPage"`
	}{thread, true, page{turns, "desc", "full"}}
	if err := s.Call(ctx, "thread/resume", params, &r); err != nil {
		return r, fmt.Errorf("cannot open the thread %s: %w", thread, err)
	}
	return r, nil
}

type page struct {
	Limit     int    `json:"limit"`
	Direction string `json:"sortDirection"`
	View      string `json:"itemsView"`
}

// last is the thread that attach would show; empty: the remote has none.
func (r Remote) last(ctx context.Context, thread string) (string, error) {
	if thread != "" {
		return thread, nil
	}
	st, err := remoteapi.AskStatus(ctx, r.Viewers)
	if errors.Is(err, fs.ErrPermission) {
		return "", attach.Refused(r.Name, r.Viewers)
	}
	return st.Last, err
}
