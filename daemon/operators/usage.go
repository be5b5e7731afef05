package operators

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"codex-proxy/daemon/usagetable"
	"codex-proxy/proxy/usage"
	"codex-proxy/workers/control"
)

// usageOf serves GET /v1/usage with the object of `codex-proxy usage --json`, of the same since and by.
func usageOf(read func(context.Context, time.Time, []string) ([]usage.Sum, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		since, err := usagetable.ParseSince(cmp.Or(r.URL.Query().Get("since"), "7d"), time.Now())
		var by []string
		if err == nil {
			by, err = usagetable.ParseBy(cmp.Or(r.URL.Query().Get("by"), "day,key"))
		}
		if err != nil {
			control.Refuse(w, http.StatusBadRequest, err)
			return
		}
		sums, err := read(r.Context(), since, by)
		if err != nil {
			control.Refuse(w, http.StatusInternalServerError, err)
			return
		}
		control.Answer(w, usagetable.TableOf(since, by, sums))
	}
}
