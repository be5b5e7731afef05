package workerhands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// Endpoint serves the routes by which a client takes the changes of its session, and ends it.
type Endpoint struct {
	Server *proxy.Server
	Client *Client

	diffs diffs
}

// longestAsk bounds a request: a session that has to start first may set its repository up.
const longestAsk = 2 * time.Minute

var errLate = unavailable("the session does not answer in time, as a set-up or other sessions take long; " +
	"send the request again")

// Routes are the routes.
func (e *Endpoint) Routes() []proxy.Route {
	return []proxy.Route{
		{Method: http.MethodGet, Path: "/v1/hands/{session}/diff", Access: proxy.Keyed, Handler: e.diff},
		{Method: http.MethodDelete, Path: "/v1/hands/{session}", Access: proxy.Keyed, Handler: e.end},
	}
}

// diff serves GET /v1/hands/{session}/diff.
func (e *Endpoint) diff(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	end, err := e.diffs.begin(x.Key.Name)
	if err != nil {
		return err
	}
	defer end()
	if err := x.Grant.Admit(1); err != nil {
		return err
	}
	patch, err := onWorker(e, r, x, e.Client.Changes)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/x-diff; charset=utf-8")
	_, err = w.Write(patch)
	return err
}

// end serves DELETE /v1/hands/{session}.
func (e *Endpoint) end(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
	_, err := onWorker(e, r, x, func(ctx context.Context, worker string, of turn.HandsSession) (struct{}, error) {
		return struct{}{}, e.Client.End(ctx, worker, of)
	})
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// onWorker asks the worker of the session of a request, which has its name in the path.
func onWorker[R any](e *Endpoint, r *http.Request, x *proxy.Exchange,
	ask func(ctx context.Context, worker string, of turn.HandsSession) (R, error)) (answer R, err error) {
	session := r.PathValue("session")
	worker, err := e.Server.HomeOf(x, session)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), longestAsk, errLate)
	defer cancel()
	answer, err = ask(ctx, worker, turn.HandsSession{Key: x.Key.Name, Name: session})
	var refused *turn.HandsError
	if !errors.As(err, &refused) {
		return answer, err
	}
	switch refused.Code {
	case noSession:
		return answer, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: string(noSession),
			Param: "session", Message: fmt.Sprintf("there is no session %q of this API key on the worker to which its name "+
				"leads now: if the workers with hands have changed since it began, or its turns had X-Codex-Account, "+
				"name its worker with that header", openai.Bounded(session))}
	case codeTooLarge:
		return answer, &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest,
			Code: string(codeTooLarge), Param: "session", Message: refused.Words,
			Header: http.Header{"X-Should-Retry": {"false"}}}
	case codeInUse:
		return answer, &openai.Error{Status: http.StatusConflict, Type: openai.TypeInvalidRequest,
			Code: string(codeInUse), Param: "session", Message: refused.Words}
	}
	return answer, err
}
