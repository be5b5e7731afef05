package properties

import (
	"fmt"
	"strings"
	"time"
)

const (
	heldPrefix = "Backing off until "
	heldFormat = "2006-01-02T15:04:05.000Z07:00" // RFC 3339
)

// HeldStatus is the STATUS= of a process that holds the restart of its unit back. Held recognises the wait by it.
func HeldStatus(restart uint32, until time.Time) string {
	return fmt.Sprintf("%s%s, before restart %d", heldPrefix, until.UTC().Format(heldFormat), restart)
}

// heldUntil parses HeldStatus.
func heldUntil(status string) (until time.Time, held bool) {
	text, held := strings.CutPrefix(status, heldPrefix)
	text, _, _ = strings.Cut(text, ",")
	until, err := time.Parse(time.RFC3339, text)
	return until, held && err == nil
}

// Job is the number of the unit's job; 0 if it has none.
func (v Values) Job() uint32 {
	job, _ := v["Job"].value.([]any)
	if len(job) == 0 {
		return 0
	}
	id, _ := job[0].(uint32)
	return id
}

// WaitingSince returns when the unit began to wait for its automatic restart, zero
// if it doesn't wait. After the wait systemd first queues the job and counts the
// restart, and leaves the state auto-restart a moment later.
func (v Values) WaitingSince() time.Time {
	if v.Text("SubState") != "auto-restart" || v.Job() != 0 {
		return time.Time{}
	}
	return v.Time("StateChangeTimestamp")
}

// MayRestart reports an end that may or may not be final. Before systemd 254, which
// brought failed-before-auto-restart, dead-before-auto-restart and RestartUSecNext, a
// unit is failed/failed or, after a clean exit, inactive/dead for an instant before it
// reaches auto-restart.
func (v Values) MayRestart() bool {
	sub := v.Text("SubState")
	return v.Missing("RestartUSecNext") && (sub == "failed" || sub == "dead")
}

// RestartDelay is RestartUSecNext (systemd 254, where the delay grows with
// RestartSteps=), or else the delay that the unit's own process waits: see Held.
func (v Values) RestartDelay() (time.Duration, bool) {
	value := v["RestartUSecNext"].value
	if value == (missing{}) {
		return v.restartDelays().before(v.Uint32("NRestarts") + 1), true
	}
	usec, ok := value.(uint64)
	return time.Duration(usec) * time.Microsecond, ok
}

// restartDelays reads the unit's files: a systemd before 254 reads RestartSec= alone.
func (v Values) restartDelays() restartDelays {
	files := append([]string{v.Text("FragmentPath")}, v.Texts("DropInPaths")...)
	return restartDelaysIn(files, v.Duration("RestartUSec"))
}

// RestOfDelay is the rest of the delay before the restart of that number, after RestartSec=.
func (v Values) RestOfDelay(restart uint32) time.Duration { return v.restartDelays().rest(restart) }

// Held reports whether the unit's own process holds its restart back, and until
// when. It does from the automatic restart on, until the first ExecStartPre= reports
// another status.
func (v Values) Held() (until time.Time, held bool) {
	restart, sub, status := v.Uint32("NRestarts"), v.Text("SubState"), v.Text("StatusText")
	starting := v.Text("ActiveState") == "activating" && sub != "auto-restart"
	if !v.Missing("RestartUSecNext") || !starting || restart == 0 {
		return time.Time{}, false
	}
	if until, held = heldUntil(status); held || sub != "start-pre" || status != "" {
		return until, held
	}
	return v.Time("InactiveExitTimestamp").Add(v.RestOfDelay(restart)), true
}
