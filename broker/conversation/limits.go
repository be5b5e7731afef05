package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// ofLimits is the kind of the event with the quota.
const ofLimits = ofCodex + "rate_limits"

type limitsKey struct{}

// WithLimits has report called with a quota that the endpoint sends in the middle of an answer, as the headers of an
// answer have it: codex does not read it there.
func WithLimits(ctx context.Context, report func(http.Header)) context.Context {
	return context.WithValue(ctx, limitsKey{}, report)
}

// reportLimits reports the quota in an event.
func reportLimits(ctx context.Context, event []byte) {
	if report, is := ctx.Value(limitsKey{}).(func(http.Header)); is {
		h := http.Header{}
		if addLimits(h, event); len(h) > 0 {
			report(h)
		}
	}
}

// ofAccount is the name of the quota of an account, which an event need not have. Models with a quota of their own have
// another one.
const ofAccount = "codex"

// addLimits adds the quota of the account in an event to the headers, where codex looks for it in an answer by HTTP.
func addLimits(h http.Header, event []byte) {
	var e struct {
		Limits struct {
			Primary   *window `json:"primary"`
			Secondary *window `json:"secondary"`
		} `json:"rate_limits"`
		Credits *struct {
			Has       bool   `json:"has_credits"`
			Unlimited bool   `json:"unlimited"`
			Balance   string `json:"balance"`
		} `json:"credits"`
		Metered string `json:"metered_limit_name"`
		Name    string `json:"limit_name"`
	}
	if json.Unmarshal(event, &e) != nil || !strings.EqualFold(cmp.Or(e.Metered, e.Name, ofAccount), ofAccount) {
		return
	}
	e.Limits.Primary.add(h, "Primary")
	e.Limits.Secondary.add(h, "Secondary")
	if e.Credits != nil {
		h.Set("X-Codex-Credits-Has-Credits", strconv.FormatBool(e.Credits.Has))
		h.Set("X-Codex-Credits-Unlimited", strconv.FormatBool(e.Credits.Unlimited))
		h.Set("X-Codex-Credits-Balance", e.Credits.Balance)
	}
}

// window is a part of a quota.
type window struct {
	Used     float64 `json:"used_percent"`
	Minutes  int64   `json:"window_minutes"`
	ResetsAt int64   `json:"reset_at"`
}

func (w *window) add(h http.Header, name string) {
	if w == nil {
		return
	}
	name = "X-Codex-" + name
	h.Set(name+"-Used-Percent", strconv.FormatFloat(w.Used, 'f', -1, 64))
	h.Set(name+"-Window-Minutes", strconv.FormatInt(w.Minutes, 10))
	h.Set(name+"-Reset-At", strconv.FormatInt(w.ResetsAt, 10))
}
