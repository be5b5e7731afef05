package operators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codex-proxy/units"
	"codex-proxy/workers/control"
)

// pushOutcomes are the values of the label outcome (package push of the console).
var pushOutcomes = []string{"sent", "gone", "failed"}

// maxPushCount bounds the report of one push, and the question for a process, in bytes.
const maxPushCount = 1 << 10

// countPushes counts the pushes that codex-console-orders.service reports: nobody scrapes that.
func countPushes(registry prometheus.Registerer) http.HandlerFunc {
	pushes := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "codex_pushes_total",
		Help: "Notifications sent to browsers for remotes, by outcome: sent, gone (the browser takes no more), " +
			"or failed.",
	}, []string{"outcome"})
	for _, outcome := range pushOutcomes {
		pushes.WithLabelValues(outcome)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		var of control.PushCount
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPushCount)).Decode(&of)
		if err != nil || !slices.Contains(pushOutcomes, of.Outcome) {
			control.Refuse(w, http.StatusBadRequest, fmt.Errorf("outcome must be one of %v", pushOutcomes))
			return
		}
		pushes.WithLabelValues(of.Outcome).Inc()
		control.Answer(w, struct{}{})
	}
}

// remoteOf serves codex-console-orders.service, which has no way to systemd, with the remote of a process.
func remoteOf(main func(context.Context, uint32) (units.MainProcess, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var of control.Process
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPushCount)).Decode(&of)
		if err != nil || of.PID <= 0 {
			control.Refuse(w, http.StatusBadRequest, errors.New("the request is no JSON object with pid"))
			return
		}
		process, err := main(r.Context(), uint32(of.PID))
		if err != nil && !errors.Is(err, units.ErrNotMain) {
			control.Refuse(w, http.StatusServiceUnavailable, err)
			return
		}
		name, isRemote := strings.CutPrefix(strings.TrimSuffix(process.Unit, ".service"), "codex-remote@")
		if err != nil || !isRemote || units.ValidRemoteName(name) != nil {
			control.Refuse(w, http.StatusForbidden, control.ErrNoRemote)
			return
		}
		control.Answer(w, control.ProcessRemote{Remote: name})
	}
}
