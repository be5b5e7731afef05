// Package turnerror has the reason why a turn of codex failed or is retried: its kind, the fault of the account in it,
// and the words of the model endpoint.
package turnerror

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Error is the reason why a turn failed or is retried.
//
// The reports of codex 0.169 by the fault of the upstream, measured with retries set to 0 (the kind is the same after
// retries; "codes" are error.code in a JSON body or in response.failed):
//
//	upstream                                      kind                           HTTPStatus
//	401 403 404 408 413 422 502 503               httpConnectionFailed           that one
//	400                                           other (message: the body)      0
//	400, 404, failed: model_not_found             modelNotFound                  0
//	400, failed: content_policy_violation         other (message: upstream's)    0
//	400, failed: context_length_exceeded          contextWindowExceeded          0
//	429                                           responseTooManyFailedAttempts  429
//	429 with error.type usage_limit_reached,      usageLimitExceeded             0
//	  usage_not_included (PlanLacksModel),
//	  insufficient_quota; failed:
//	  insufficient_quota, usage_not_included
//	500                                           internalServerError            0
//	503 server_is_overloaded, failed: the same    serverOverloaded               0
//	503 slow_down, failed: slow_down,             rateLimitExceeded              0
//	  rate_limit_exceeded
//	failed: cyber_policy                          cyberPolicy                    0
//	failed: invalid_prompt                        other (message: upstream's)    0
//	failed: any other code, usage_limit_reached   other (*)                      0
//	  among them
//	no connection, connection cut, half a         other (*)                      0
//	  stream, end without response.completed,
//	  garbage, HTML, idle timeout
//	response.incomplete                           other, see Incomplete          0
//	response.incomplete inside an open item       other (*), see Incomplete      0
//
// (*) The message begins with "stream disconnected before completion: ".
//
// Only response.incomplete between items has usage. A broken line of JSON
// inside a healthy stream is skipped and the turn completes. While codex retries
// (Retrying), the kind is responseStreamDisconnected and the reason is in
// AdditionalDetails.
type Error struct {
	Message           string `json:"message"`
	Info              Info   `json:"codexErrorInfo"`
	AdditionalDetails string `json:"additionalDetails"`
}

// UnmarshalJSON decodes the report of codex. One before 0.169 has the status of the endpoint in its text alone.
func (e *Error) UnmarshalJSON(b []byte) error {
	type plain Error
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(e.Message, unexpectedStatus); ok && e.Info == (Info{Kind: KindOther}) {
		number, _, _ := strings.Cut(rest, " ")
		if status, err := strconv.Atoi(number); err == nil {
			e.Info = Info{Kind: KindConnectionFailed, HTTPStatus: status}
		}
	}
	return nil
}

// Error implements error.
func (e *Error) Error() string {
	if e.AdditionalDetails == "" {
		return e.Message
	}
	return e.Message + ": " + e.AdditionalDetails
}

// Incomplete returns the reason of a response.incomplete, "max_output_tokens"
// or "content_filter". Codex reports it as a failed turn of kind "other"; only the message identifies it.
func (e *Error) Incomplete() (reason string, ok bool) {
	const mark = "Incomplete response returned, reason: "
	if _, reason, ok = strings.Cut(e.Message, mark); ok {
		return reason, true
	}
	_, reason, ok = strings.Cut(e.AdditionalDetails, mark)
	return reason, ok
}

// Info is codexErrorInfo, which is a string or an object with the kind as its only key.
type Info struct {
	// Kind is one of the Error… constants, or another kind of codex, or empty.
	Kind string
	// HTTPStatus is the upstream's status, 0 when codex does not report it.
	HTTPStatus int
}

// The kinds of codexErrorInfo that are more specific than HTTPStatus.
const (
	KindContextWindowExceeded     = "contextWindowExceeded"
	KindSessionBudgetExceeded     = "sessionBudgetExceeded"
	KindUsageLimitExceeded        = "usageLimitExceeded"
	KindRateLimitExceeded         = "rateLimitExceeded"
	KindServerOverloaded          = "serverOverloaded"
	KindModelNotFound             = "modelNotFound"
	KindPolicyCapacityUnavailable = "policyCapacityUnavailable"
	KindFlexUnavailable           = "flexUnavailable"
	KindCyberPolicy               = "cyberPolicy"
	KindBioPolicy                 = "bioPolicy"
	KindMisalignmentPolicy        = "misalignmentPolicyViolation"
	KindInferenceHookDenied       = "inferenceHookDenied"
	KindTooManyDenials            = "tooManyDenials"
	KindUnauthorized              = "unauthorized"
	KindBadRequest                = "badRequest"
	KindOther                     = "other"
	KindInternalServerError       = "internalServerError"
	KindTooManyFailedAttempts     = "responseTooManyFailedAttempts"
	KindStreamDisconnected        = "responseStreamDisconnected"
	KindConnectionFailed          = "httpConnectionFailed"
	KindStreamConnectionFailed    = "responseStreamConnectionFailed"
)

// UnmarshalJSON accepts both forms and never fails on an unknown form: the error that contains it matters more than its
// kind.
func (i *Info) UnmarshalJSON(b []byte) error {
	*i = Info{}
	if json.Unmarshal(b, &i.Kind) == nil {
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) != nil || len(object) != 1 {
		i.Kind = KindOther
		return nil
	}
	for kind, raw := range object {
		i.Kind = kind
		var detail struct {
			HTTPStatusCode int `json:"httpStatusCode"`
		}
		if json.Unmarshal(raw, &detail) == nil {
			i.HTTPStatus = detail.HTTPStatusCode
		}
	}
	return nil
}
