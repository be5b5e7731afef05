package responses

import (
	"context"
	"errors"
	"net/http"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/eventstream"
	"codex-proxy/proxy/responses/inflight"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/queue"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
	"codex-proxy/workers/dispatch"
)

// background is a response that goes on without the client of its request. While it waits for its turn, its request
// lies in the store. It belongs to its own goroutine.
type background struct {
	*Endpoint
	id      string
	created int64
	base    context.Context // of the exchange: it ends when the service must end
	x       *proxy.Exchange // its own
	running *inflight.Response
	events  *logged // nil: it is not streamed

	previous     string // the response that it continues; empty: none
	conversation string // that it has until its end; empty: none

	answered func()        // no stop of the service waits for it any more
	failure  *openai.Error // why it has failed, for clients
	end      *ending       // nil: it has none yet
	shown    bool          // clients have its end
}

// createBackground begins a background response, and answers with it or with its stream. body is the request.
func (e *Endpoint) createBackground(w http.ResponseWriter, r *http.Request, x *proxy.Exchange, body []byte,
	req *wire.Request) error {
	if req.Store != nil && !*req.Store || e.Store == nil {
		return openai.Invalid("unsupported_parameter", "background",
			"a background response is kept on the server: set store to true, or leave it out (response_retention)")
	}
	blank, err := e.checkBackground(r.Context(), x, req)
	if err != nil {
		return err
	}
	object, err := openai.Encode(blank)
	if err == nil {
		err = e.begin(r.Context(), x, req, blank, object, body)
	}
	if err != nil {
		e.Store.Yield(req.Conversation, blank.ID)
		return err
	}
	if req.Stream {
		return e.follow(w, r, x, blank.ID, -1, func() {})
	}
	return e.Answers.JSON(w, blank)
}

// checkBackground returns the response to a request, as far as it can be refused before its turn. The response has its
// conversation from now on.
func (e *Endpoint) checkBackground(ctx context.Context, x *proxy.Exchange, req *wire.Request) (
	blank wire.Response, err error,
) {
	if e.Turns.Pool.Lacks(req.Model, x.Accounts...) {
		return blank, dispatch.ErrNoModel
	}
	job, err := e.jobs.New(ctx, x, req, nil)
	if err != nil {
		return blank, err
	}
	if _, err := plan.New(req, job.Conversation()); err != nil {
		e.jobs.Close(job)
		return blank, err
	}
	blank = job.Blank
	blank.Status = wire.StatusQueued
	return blank, nil
}

// begin stores a background response, and lets it run.
func (e *Endpoint) begin(ctx context.Context, x *proxy.Exchange, req *wire.Request, blank wire.Response,
	object, body []byte) error {
	leave, err := e.lanes.Admit(x.Key.Name, int64(len(object)+len(body)))
	if err != nil {
		return err
	}
	b := &background{Endpoint: e, id: blank.ID, created: blank.CreatedAt}
	if blank.PreviousResponseID != nil {
		b.previous = *blank.PreviousResponseID
	}
	if blank.Conversation != nil {
		b.conversation = blank.Conversation.ID
	}
	if err := b.store(ctx, x, blank, object, body, req.Stream); err != nil {
		leave()
		return cause.Of(ctx, err)
	}
	// Lanes are not by the client's name of the model: a pattern matches any number of names.
	place := b.lanes.Join(queue.LaneOf(x.Key.Name, req.Model, x.Accounts))
	x.Grant.Body.Release()         // the store has the request now
	entered := make(chan struct{}) // from then on clients can cancel it
	e.Server.Detach(x, b.id, func(base context.Context, own *proxy.Exchange, answered func()) {
		defer leave()
		defer place.Leave()
		ctx, running, over := e.running.Enter(base, b.id, own.Key.Name)
		defer over()
		b.base, b.x, b.running, b.answered = base, own, running, answered
		close(entered)
		b.run(ctx, place)
	})
	<-entered
	return nil
}

// store keeps a background response from now on, and begins its log.
func (b *background) store(ctx context.Context, x *proxy.Exchange, blank wire.Response, object, body []byte,
	stream bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	f := stored.InFlight{ID: b.id, Owner: x.Key.Name, Previous: b.previous}
	err := b.Store.Begin(ctx, f, object, body, stream)
	if err == nil && stream {
		if err = b.log(blank); err != nil {
			err = errors.Join(err, b.Store.Retract(ctx, b.id))
		}
	}
	if err == nil || errors.Is(err, stored.ErrUnavailable) {
		return err
	}
	b.Server.Logger.Error("a background response cannot be stored", "request_id", x.ID, "response_id", b.id, "error",
		err)
	return stored.ErrUnavailable
}

// log begins the log with the events before the turn.
func (b *background) log(blank wire.Response) error {
	log, err := b.Store.Logs().Create(b.id)
	if err != nil {
		return err
	}
	begun := eventstream.New(&wire.Request{}, blank, "", nil)
	events, err := eventstream.Encode(begun.Queue()...)
	if err == nil {
		_, err = log.Write(events)
	}
	if err == nil {
		err = log.Flush()
	}
	if err != nil {
		log.Close()
		return err
	}
	log.Rest()
	b.events = &logged{background: b, log: log, count: queued}
	return nil
}

// queued is the number of events before the turn.
const queued = 2
