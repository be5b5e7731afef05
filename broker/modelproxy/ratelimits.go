package modelproxy

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
)

// limits are those that codex's account/rateLimits/updated has.
type limits struct {
	ID        string   `json:"limitId"`
	Primary   *window  `json:"primary"`
	Secondary *window  `json:"secondary"`
	Credits   *credits `json:"credits"`
}

type window struct {
	Used     int   `json:"usedPercent"`
	Minutes  int64 `json:"windowDurationMins"`
	ResetsAt int64 `json:"resetsAt"`
}

type credits struct {
	Has       bool   `json:"hasCredits"`
	Unlimited bool   `json:"unlimited"`
	Balance   string `json:"balance"`
}

// report passes on the quota of the account in the headers of an answer.
func (a *accounts) report(with token, h http.Header) {
	if text := limitsOf(h); text != nil {
		a.tokens.Service.ReportLimits(with.account, text)
	}
}

// limitsOf is the quota in the headers of an answer; nil: they have none.
func limitsOf(h http.Header) json.RawMessage {
	l := limits{ID: "codex", Primary: windowOf(h, "Primary"), Secondary: windowOf(h, "Secondary")}
	if has, err := strconv.ParseBool(h.Get("X-Codex-Credits-Has-Credits")); err == nil {
		unlimited, _ := strconv.ParseBool(h.Get("X-Codex-Credits-Unlimited"))
		l.Credits = &credits{has, unlimited, h.Get("X-Codex-Credits-Balance")}
	}
	if l.Primary == nil && l.Secondary == nil {
		return nil
	}
	text, _ := json.Marshal(l) // it has nothing that JSON lacks
	return text
}

func windowOf(h http.Header, name string) *window {
	const most = 1000 // percent
	used, err := strconv.ParseFloat(h.Get("X-Codex-"+name+"-Used-Percent"), 64)
	if err != nil || !(used >= 0 && used <= most) {
		return nil
	}
	w := &window{Used: int(math.Round(used))}
	w.Minutes, _ = strconv.ParseInt(h.Get("X-Codex-"+name+"-Window-Minutes"), 10, 64)
	w.ResetsAt, _ = strconv.ParseInt(h.Get("X-Codex-"+name+"-Reset-At"), 10, 64)
	return w
}
