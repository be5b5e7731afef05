package remotes

import (
	"net/http"

	"codex-proxy/test/bed"
)

// usedUp: the account's quota ran out after the client had received text, which ends the stream with that error.
func usedUp(e *bed.Entry) bool {
	return e.Err == nil && e.Status == http.StatusOK && e.Stream && !e.Whole && e.Finish == "" && e.Text != "" &&
		e.Code == e.OfAPI("usage_limit_reached", "rate_limit_error")
}
