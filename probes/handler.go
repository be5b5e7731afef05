package probes

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// ReadyHandler serves /readyz and /healthz: 200 while ready, else 503.
// report is called once a request.
func ReadyHandler(report func() Report) http.Handler {
	return handler(report, func(r Report) bool { return r.Health.Readiness.Ready })
}

// LiveHandler serves /livez: 200 while live, else 503.
func LiveHandler(report func() Report) http.Handler {
	return handler(report, func(r Report) bool { return r.Health.Liveness.Live })
}

func handler(report func() Report, ok func(Report) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := report()
		r.OK = ok(r)
		r.Dependencies, r.Remotes, r.Brokers = withoutStatuses(r.Dependencies), nil, nil
		r.Database = r.Database.forAnyone()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !r.OK {
			w.Header().Set("Retry-After", strconv.Itoa(int(RetryAfter(r, time.Now()).Seconds())))
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		// The status line is out: an error here can only be a client that has gone.
		_ = json.NewEncoder(w).Encode(r)
	})
}
