package survey

import (
	"context"
	"fmt"
	"time"

	"codex-proxy/internal/checkup"
)

// watchdog checks that systemd watches the proxy and the workers, and that none
// of them hangs now.
func (w *whole) watchdog(context.Context) []checkup.Finding {
	if w.BusErr != nil {
		return checkup.Unchecked("", "systemd does not answer", "bus").Alone()
	}
	var found []checkup.Finding
	count := 0
	for _, u := range each(w, func(r Room) []Unit { return r.Units }) {
		if u.Watched {
			found = append(found, w.watched(u.Name)...)
			count++
		}
	}
	return checkup.OrPassed(found, fmt.Sprintf("%d units are watched, and answer", count))
}

func (w *whole) watched(unit string) []checkup.Finding {
	d := w.Units[unit]
	switch {
	case w.Standby(unit):
		return nil
	case !d.Active():
		return checkup.Unchecked(unit, "it does not run", "units").Alone()
	case d.Watchdog == 0:
		return checkup.Warning(unit, "has no watchdog: nobody would notice that it hangs",
			"take WatchdogSec= out of the drop-in that systemctl cat "+unit+" shows").Alone()
	case d.WatchdogAge > d.Watchdog:
		return checkup.Failure(unit, fmt.Sprintf("has not answered for %s, of %s", d.WatchdogAge.Round(time.Second),
			d.Watchdog), "systemctl restart "+unit).Alone()
	}
	return nil
}
