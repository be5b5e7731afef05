package workers

import (
	"fmt"
	"strings"
	"time"

	"codex-proxy/probes"
)

// maxTransitions is enough for two whole restarts.
const maxTransitions = 12

// transitions are the last changes of a worker's reason, oldest first.
type transitions []probes.Transition

// add records the reason and reports whether it is a new one.
func (t *transitions) add(reason probes.Reason, now time.Time) bool {
	n := len(*t)
	if n > 0 && (*t)[n-1].Reason == reason {
		return false
	}
	if n == maxTransitions {
		*t = (*t)[1:]
	}
	*t = append(*t, probes.Transition{Reason: reason, At: now})
	return true
}

// chain lists the reasons since the worker was last ready, each with how long it
// held: "handshake_lost 2ms, backing_off 100ms, …".
func (t transitions) chain() string {
	last := len(t) - 1
	first := last
	for first > 0 && t[first-1].Reason != probes.Ready {
		first--
	}
	var steps []string
	for i := first; i < last; i++ {
		steps = append(steps, fmt.Sprintf("%s %s", t[i].Reason, t[i+1].At.Sub(t[i].At).Round(time.Millisecond)))
	}
	return strings.Join(steps, ", ")
}
