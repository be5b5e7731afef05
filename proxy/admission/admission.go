// Package admission is the first part of every request for a turn: it reads the body within
// the limits on size, time and memory, applies the limits of the key, resolves the model,
// and fetches images that the request names by URL.
package admission

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"codex-proxy/proxy"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/models"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/parameter"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

// Settings is the configuration of a Controller.
type Settings struct {
	Catalogue *models.Catalogue
	// Images fetches images that requests name by URL; nil refuses those.
	Images Images
	// BodyLimit bounds a request body, in bytes, and the images fetched for it.
	BodyLimit int64
	// RequestTimeout bounds a request from the arrival of its body to the end of its
	// answer; 0 is no bound.
	RequestTimeout time.Duration
	// IgnoreUnknown ignores unknown parameters of requests instead of refusing them. A key may have another setting.
	IgnoreUnknown bool
}

// Controller takes in requests. It is safe for concurrent use.
type Controller struct {
	Settings

	places imagePlaces
}

// New creates a Controller.
func New(settings Settings) *Controller { return &Controller{Settings: settings} }

// Request is a decoded request of any endpoint.
type Request interface{ Common() parameter.Common }

// Decoder decodes a body.
type Decoder[R any] func(body []byte, how jsonbody.Reading) (R, error)

// Take reads and decodes the body of a request. Errors are an *openai.Error,
// dispatch.ErrNoModel, or the cause of the request's context. The context that it returns is bounded by RequestTimeout;
// cancel must be called at the end of the answer.
func Take[R Request](in *Controller, w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	decode Decoder[R]) (
	req R, ctx context.Context, cancel context.CancelFunc, err error,
) {
	body, err := in.read(w, r, x)
	var ignored []string
	if err == nil {
		req, ignored, err = Decode(r.Context(), in, x, body, decode)
	}
	if err != nil {
		return req, nil, nil, err
	}
	MarkIgnored(w, ignored)
	ctx, cancel = in.Bound(r.Context())
	return req, ctx, cancel, nil
}

// MarkIgnored names the parameters without effect in the header of the answer.
func MarkIgnored(w http.ResponseWriter, ignored []string) {
	if len(ignored) > 0 {
		w.Header().Set("X-Codex-Ignored-Params", strings.Join(ignored, ", "))
	}
}

// Body reads and decodes the body of a request that needs no turn, within the limits on its size, time and memory. A
// request without a body has an empty object.
func Body[R any](in *Controller, w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	decode Decoder[R]) (req R, err error) {
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" {
		return decode([]byte("{}"), in.reading(x))
	}
	body, err := in.read(w, r, x)
	if err != nil {
		return req, err
	}
	bytes, _, err := limits.Weigh(body)
	if err != nil {
		return req, err
	}
	x.Grant.Body.Shrink(bytes)
	if err := x.Grant.Body.Reach(r.Context(), bytes); err != nil {
		return req, err
	}
	return decode(body, in.reading(x))
}

// ignored are the parameters without effect, some of them only with the model that runs; sorted.
func ignored(asked parameter.Common, has workers.Abilities) []string {
	list := slices.Clone(asked.Ignored)
	if asked.Tier != "" && !has.HasTier(asked.Tier) {
		list = append(list, asked.TierField)
	}
	if asked.NoReasoning && *asked.Effort != parameter.NoEffort {
		list = append(list, asked.NoReasoningField)
	}
	if asked.SoftEffort != "" && *asked.Effort != asked.SoftEffort {
		list = append(list, asked.EffortField)
	}
	slices.Sort(list)
	return list
}

// Decode decodes a body that has been read, after it has applied the limits of the key.
// The model, the effort and the summary of the request become those that are to run.
// ignored are the parameters without effect.
func Decode[R Request](ctx context.Context, in *Controller, x *proxy.Exchange, body []byte,
	decode Decoder[R]) (req R, ignored []string, err error) {
	if err = in.weigh(ctx, x, body); err != nil {
		return req, nil, err
	}
	if req, err = decode(body, in.reading(x)); err != nil {
		return req, nil, err
	}
	ignored, err = in.admit(x, req.Common())
	return req, ignored, err
}

// Bound applies RequestTimeout, if there is one, to a request that has arrived: its
// waiting, its attempts and its answer together.
func (in *Controller) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if in.RequestTimeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, in.RequestTimeout, in.late())
}

// BoundLater is Bound from the call of begin on, on the same goroutine, for a request with a wait that does not count.
func (in *Controller) BoundLater(ctx context.Context) (bounded context.Context, begin func(), cancel context.CancelFunc) {
	bounded, end := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	begin = func() {
		if in.RequestTimeout > 0 {
			stop = time.AfterFunc(in.RequestTimeout, func() { end(in.late()) }).Stop
		}
	}
	return bounded, begin, func() {
		stop()
		end(nil)
	}
}

func (in *Controller) late() error {
	return openai.Timeout("request_timeout", fmt.Sprintf("the answer was not finished within %s", in.RequestTimeout))
}

// weigh refuses a body that must not be decoded, because its key has met a limit or
// because it holds too much, and acquires the memory for one that may be decoded.
func (in *Controller) weigh(ctx context.Context, x *proxy.Exchange, body []byte) error {
	bytes, w, tooMany := limits.Weigh(body)
	w.Model = cmp.Or(x.PathModel, w.Model)
	if err := in.admitUndecoded(x, w); err != nil {
		return err
	}
	if tooMany != nil {
		return tooMany
	}
	x.Grant.Body.Shrink(bytes)
	return x.Grant.Body.Reach(ctx, bytes)
}

// admitUndecoded applies the limits of the key as far as they need no decoded body: a
// request of a key that has met its limits is not worth the decoding.
func (in *Controller) admitUndecoded(x *proxy.Exchange, w jsonbody.Weight) error {
	if w.Model != "" && !x.Grant.Allows(w.Model) {
		x.Model = w.Model
		return dispatch.ErrNoModel
	}
	if err := x.Grant.Admit(min(max(w.Choices, 1), parameter.MaxChoices)); err != nil {
		x.Model = w.Model
		return err
	}
	return nil
}

// admit admits a decoded request before it waits for a worker: its key may use the model
// and has not met its limits. x.Model stays the client's name for the model, which is
// answered and logged. It returns the parameters without effect.
func (in *Controller) admit(x *proxy.Exchange, asked parameter.Common) ([]string, error) {
	x.Model, x.Stream, x.HistoryField = *asked.Model, x.Stream || asked.Stream, asked.HistoryField
	if x.Model == "" { // a decoder has allowed that: no turn runs
		return ignored(asked, workers.Abilities{}), x.Grant.Admit(int64(asked.Choices))
	}
	if !x.Grant.Allows(x.Model) {
		return nil, dispatch.ErrNoModel
	}
	choice, err := in.Catalogue.Resolve(asked)
	if err != nil {
		return nil, err
	}
	x.Counted = choice.Counted
	*asked.Model, *asked.Effort = choice.Model, choice.Effort
	if asked.Summary != nil {
		*asked.Summary = summary(*asked.Summary, choice.Summary)
	}
	return ignored(asked, choice.Abilities), x.Grant.Admit(int64(asked.Choices))
}

// summary is the reasoning.summary of a request, or the default if it names none; empty: no summary.
func summary(asked, byDefault string) string {
	if s := cmp.Or(asked, byDefault); s != parameter.NoSummary {
		return s
	}
	return ""
}
