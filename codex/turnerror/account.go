package turnerror

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/lazyregexp"
)

// AccountFault is a failure of a turn that concerns the account of its worker, and not the request: another account may
// serve the same request.
type AccountFault string

// The faults of accounts.
const (
	NoFault         AccountFault = ""
	UsageLimit      AccountFault = "usage_limit"      // the endpoint refused the request for the account's quota
	UsageLimitLate  AccountFault = "in_stream"        // the same, in a stream that it had begun
	PaymentRequired AccountFault = "payment_required" // it answered with 402
	// ModelRefused: the plan lacks this model, or a limit of this model alone is used up.
	ModelRefused AccountFault = "model_refused"
	RateLimit    AccountFault = "rate_limit"   // it limits the rate of requests
	Unauthorized AccountFault = "unauthorized" // it does not accept the login
)

// RotatingFaults are the faults after which a turn may run on another account.
var RotatingFaults = []AccountFault{UsageLimit, UsageLimitLate, PaymentRequired, ModelRefused}

// planWords are codex's sentence for usage_not_included, and modelLimitWords its sentence for a usage limit that has
// another name than the account's own. codex reports both as usageLimitExceeded. The account serves other models.
var (
	planWords       = lazyregexp.New(`(?i)^To use Codex with your ChatGPT plan\b`)
	modelLimitWords = lazyregexp.New(`(?i)\busage limit for .+\bSwitch to another model\b`)
)

// PlanLacksModel reports that the plan of the account does not have the model. No wait changes that.
func (e *Error) PlanLacksModel() bool {
	return e.Info.Kind == KindUsageLimitExceeded && planWords.MatchString(e.Message)
}

// limitOfModel reports that a limit of one model is used up.
func (e *Error) limitOfModel() bool {
	return e.Info.Kind == KindUsageLimitExceeded && modelLimitWords.MatchString(e.Message)
}

// quotaWords are the words of a usage limit in a stream: codex drops the code, and calls the failure "other".
var quotaWords = lazyregexp.New(`(?i)usage[ _]limit|insufficient[ _]quota|exceeded your (?:current )?quota`)

// Account is the fault of the account, or NoFault. The session's budget is no fault: it is codex's own setting.
func (e *Error) Account() AccountFault {
	if e.PlanLacksModel() || e.limitOfModel() {
		return ModelRefused
	}
	switch e.Info.Kind {
	case KindUsageLimitExceeded:
		return UsageLimit
	case KindRateLimitExceeded:
		return RateLimit
	case KindUnauthorized:
		return Unauthorized
	case KindOther, KindStreamDisconnected:
		return e.inStream()
	}
	switch e.Info.HTTPStatus {
	case http.StatusPaymentRequired:
		return PaymentRequired
	case http.StatusTooManyRequests:
		return RateLimit
	case http.StatusUnauthorized:
		return Unauthorized
	}
	return NoFault
}

// inStream is the fault that the endpoint reports in its stream. While codex retries, that is in AdditionalDetails.
func (e *Error) inStream() AccountFault {
	failure := *e
	if e.Info.Kind == KindStreamDisconnected {
		failure = Error{Message: e.AdditionalDetails, Info: Info{Kind: KindOther}}
	}
	if u := failure.Upstream(); u.Phase == InStream && quotaWords.MatchString(u.Message) {
		return UsageLimitLate
	}
	return NoFault
}

// Quota reports whether the account has nothing left.
func (f AccountFault) Quota() bool {
	return f == UsageLimit || f == UsageLimitLate || f == PaymentRequired
}

// Rotates reports whether the turn may run on another account.
func (f AccountFault) Rotates() bool { return slices.Contains(RotatingFaults, f) }

var (
	tryAgain = lazyregexp.New(`(?i)try again at ([A-Za-z0-9 ,:]{1,40})`)
	ordinal  = lazyregexp.New(`(\d)(?:st|nd|rd|th)\b`)
)

// TryAgain is the end of a usage limit in codex's words, "Mar 17th, 2030 5:46 PM" or "5:46 PM"; empty if they have
// none.
func (e *Error) TryAgain() string {
	m := tryAgain.FindStringSubmatch(e.Error())
	if m == nil {
		return ""
	}
	return strings.TrimSpace(m[1])
}

// ResetsAt is TryAgain as a time, which codex writes in the time zone of the machine, without the date on the same day.
// It is zero without one.
func (e *Error) ResetsAt(now time.Time) time.Time {
	words := ordinal.ReplaceAllString(e.TryAgain(), "$1")
	if at, err := time.ParseInLocation("Jan 2, 2006 3:04 PM", words, now.Location()); err == nil {
		return at
	}
	if clock, err := time.Parse("3:04 PM", words); err == nil {
		y, m, d := now.Date()
		return time.Date(y, m, d, clock.Hour(), clock.Minute(), 0, 0, now.Location())
	}
	return time.Time{}
}
