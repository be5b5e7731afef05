// Package intake is the first part of every request for a turn: it reads the body within
// the limits on size, time and memory, applies the limits of the key, resolves the model,
// and fetches images that the request names by URL.
package intake

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
	"codex-proxy/workers"
)

// Settings is the configuration of an Intake.
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

// Intake takes in requests. It is safe for concurrent use.
type Intake struct {
	Settings

	places imagePlaces
}

// New creates an intake.
func New(settings Settings) *Intake { return &Intake{Settings: settings} }

// Request is a decoded request of any endpoint.
type Request interface{ Asked() openai.Asked }

// Take reads and decodes the body of a request. Errors are an *openai.Error,
// workers.ErrNoModel, or the cause of the request's context. The context that it returns is bounded by RequestTimeout;
// cancel must be called at the end of the answer.
func Take[R Request](in *Intake, w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	decode func([]byte) (R, error)) (
	req R, ctx context.Context, cancel context.CancelFunc, err error,
) {
	body, err := in.read(w, r, x)
	if err == nil {
		req, err = Decode(r.Context(), in, x, body, decode)
	}
	if err != nil {
		return req, nil, nil, err
	}
	MarkIgnored(w, in.ignored(req.Asked()))
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
func Body[R any](in *Intake, w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	decode func([]byte) (R, error)) (req R, err error) {
	if r.ContentLength == 0 && r.Header.Get("Content-Type") == "" {
		return decode([]byte("{}"))
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
	return decode(body)
}

// ignored are the parameters without effect, some of them only with this model; sorted.
func (in *Intake) ignored(asked openai.Asked) []string {
	list := slices.Clone(asked.Ignored)
	if asked.Tier != "" && !in.Catalogue.HasTier(*asked.Model, asked.Tier) {
		list = append(list, asked.TierField)
	}
	if asked.NoReasoning && *asked.Effort != noEffort {
		list = append(list, asked.NoReasoningField)
	}
	if asked.SoftEffort != "" && *asked.Effort != asked.SoftEffort {
		list = append(list, asked.EffortField)
	}
	slices.Sort(list)
	return list
}

// noEffort is the reasoning effort of no reasoning.
const noEffort = "none"

// Decode decodes a body that has been read, after it has applied the limits of the key.
// The model, the effort and the summary of the request become those that are to run.
func Decode[R Request](ctx context.Context, in *Intake, x *proxy.Exchange, body []byte,
	decode func([]byte) (R, error)) (R, error) {
	var none R
	if err := in.weigh(ctx, x, body); err != nil {
		return none, err
	}
	req, err := decode(body)
	if err != nil {
		return none, err
	}
	return req, in.admit(x, req.Asked())
}

// Bound applies RequestTimeout, if there is one, to a request that has arrived: its
// waiting, its attempts and its answer together.
func (in *Intake) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if in.RequestTimeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, in.RequestTimeout, in.late())
}

// BoundLater is Bound from the call of begin on, on the same goroutine, for a request with a wait that does not count.
func (in *Intake) BoundLater(ctx context.Context) (bounded context.Context, begin func(), cancel context.CancelFunc) {
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

func (in *Intake) late() error {
	return openai.Timeout("request_timeout", fmt.Sprintf("the answer was not finished within %s", in.RequestTimeout))
}

// weigh refuses a body that must not be decoded, because its key has met a limit or
// because it holds too much, and acquires the memory for one that may be decoded.
func (in *Intake) weigh(ctx context.Context, x *proxy.Exchange, body []byte) error {
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
func (in *Intake) admitUndecoded(x *proxy.Exchange, w openai.Weight) error {
	if w.Model != "" && !x.Grant.Allows(w.Model) {
		x.Model = w.Model
		return workers.ErrNoModel
	}
	if err := x.Grant.Admit(min(max(w.Choices, 1), openai.MaxChoices)); err != nil {
		x.Model = w.Model
		return err
	}
	return nil
}

// admit admits a decoded request before it waits for a worker: its key may use the model
// and has not met its limits. x.Model stays the client's name for the model, which is
// answered and logged.
func (in *Intake) admit(x *proxy.Exchange, asked openai.Asked) error {
	x.Model, x.Stream, x.HistoryField = *asked.Model, x.Stream || asked.Stream, asked.HistoryField
	if x.Model == "" { // a decoder has allowed that: no turn runs
		return x.Grant.Admit(int64(asked.Choices))
	}
	if !x.Grant.Allows(x.Model) {
		return workers.ErrNoModel
	}
	alias, err := in.resolve(x.Model, asked)
	if err != nil {
		return err
	}
	x.Counted = alias.Counted
	*asked.Model, *asked.Effort = alias.Model, alias.Effort
	if asked.Summary != nil {
		*asked.Summary = summary(*asked.Summary, alias.Summary)
	}
	return x.Grant.Admit(int64(asked.Choices))
}

// resolve is the model that runs for the client's name of it, with its effort.
func (in *Intake) resolve(model string, asked openai.Asked) (models.Choice, error) {
	alias, err := in.Catalogue.Resolve(model, *asked.Effort, asked.EffortField)
	switch {
	case err != nil || alias.Effort != "":
	case asked.NoReasoning && in.Catalogue.HasEffort(alias.Model, noEffort):
		alias.Effort = noEffort
	default:
		alias.Effort = in.nearestEffort(alias.Model, asked.SoftEffort)
	}
	return alias, err
}

// nearestEffort is the effort, or the highest below it that the model has. If the model's efforts are not known, it is
// the effort itself: the model endpoint knows them.
func (in *Intake) nearestEffort(model, effort string) string {
	efforts := openai.Efforts()
	for at := slices.Index(efforts, effort); at > 0; at-- {
		if in.Catalogue.HasEffort(model, efforts[at]) {
			return efforts[at]
		}
	}
	return effort
}

// summary is the reasoning.summary of a request, or the default if it names none; empty: no summary.
func summary(asked, byDefault string) string {
	if s := cmp.Or(asked, byDefault); s != openai.NoSummary {
		return s
	}
	return ""
}
