package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	oldestSystemd = 252
	// growingDelays is the version that brought RestartSteps= and RestartMaxDelaySec=.
	growingDelays = 254
	// patientDelay is a constant delay with which the start limit of
	// codex-worker@.service, 15 starts, lasts more than a minute.
	patientDelay = 5 * time.Second
)

// checkSystemd is about its version, and what that lacks.
func checkSystemd(_ context.Context, s *survey) []Finding {
	if s.busErr != nil {
		return []Finding{unchecked("", "systemd does not answer", "bus")}
	}
	digits := strings.IndexFunc(s.version+" ", func(r rune) bool { return r < '0' || r > '9' })
	major, err := strconv.Atoi(s.version[:digits])
	switch {
	case err != nil:
		return []Finding{warn("", fmt.Sprintf("its version %q cannot be read", s.version), fmt.Sprintf("make sure that it is %d or later", oldestSystemd))}
	case major < oldestSystemd:
		return []Finding{fail("", fmt.Sprintf("version %s is too old", s.version), fmt.Sprintf("codex-proxy needs systemd %d or later (Debian 12)", oldestSystemd))}
	case major < growingDelays:
		return s.constantDelays()
	}
	return []Finding{ok("", "version "+s.version)}
}

// constantDelays: what systemd lacks matters to the workers' restarts.
func (s *survey) constantDelays() []Finding {
	lacks := fmt.Sprintf("version %s restarts a worker at a constant delay; delays that grow need %d", s.version, growingDelays)
	var found []Finding
	for _, w := range s.workers {
		d, known := s.units[w.unit()]
		if known && d.RestartDelay < patientDelay {
			found = append(found, warn(w.unit(), fmt.Sprintf("%s. With RestartSec=%s a crash loop reaches the start limit within seconds", lacks, d.RestartDelay),
				"choose a RestartSec= of 5s or more: systemctl edit codex-worker@.service"))
		}
	}
	return orOK(found, lacks+"; RestartSec= allows for it")
}
