package doctor

import (
	"context"
	"fmt"
	"time"
)

// checkWatchdog checks that systemd watches the proxy and the workers, and that none
// of them hangs now.
func checkWatchdog(_ context.Context, s *survey) []Finding {
	if s.busErr != nil {
		return []Finding{unchecked("", "systemd does not answer", "bus")}
	}
	names := []string{proxyUnit}
	for _, w := range s.workers {
		names = append(names, w.unit())
	}
	var found []Finding
	for _, name := range names {
		found = append(found, s.watched(name)...)
	}
	return orOK(found, fmt.Sprintf("%d units are watched, and answer", len(names)))
}

func (s *survey) watched(unit string) []Finding {
	d := s.units[unit]
	switch {
	case s.standby(unit):
		return nil
	case !d.Active():
		return []Finding{unchecked(unit, "it does not run", "units")}
	case d.Watchdog == 0:
		return []Finding{warn(unit, "has no watchdog: nobody would notice that it hangs",
			"take WatchdogSec= out of the drop-in that systemctl cat "+unit+" shows")}
	case d.WatchdogAge > d.Watchdog:
		return []Finding{fail(unit, fmt.Sprintf("has not answered for %s, of %s", d.WatchdogAge.Round(time.Second),
			d.Watchdog), "systemctl restart "+unit)}
	}
	return nil
}
