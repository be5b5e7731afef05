package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

const (
	oldestSystemd = 252
	// growingDelays is the first version with RestartSteps= and RestartMaxDelaySec=.
	// Before it, package restartdelay waits in its place.
	growingDelays = 254
)

// checkSystemd checks the version of systemd.
func checkSystemd(_ context.Context, s *survey) []Finding {
	if s.busErr != nil {
		return []Finding{unchecked("", "systemd does not answer", "bus")}
	}
	digits := strings.IndexFunc(s.version+" ", func(r rune) bool { return r < '0' || r > '9' })
	major, err := strconv.Atoi(s.version[:digits])
	switch {
	case err != nil:
		return []Finding{warn("", fmt.Sprintf("its version %q cannot be read", s.version),
			fmt.Sprintf("make sure that it is %d or later", oldestSystemd))}
	case major < oldestSystemd:
		return []Finding{fail("", fmt.Sprintf("version %s is too old", s.version),
			fmt.Sprintf("codex-proxy needs systemd %d or later (Debian 12)", oldestSystemd))}
	case major < growingDelays:
		return []Finding{ok("", fmt.Sprintf("version %s: has no growing restart delays, the units themselves wait "+
			"for them",
			s.version))}
	}
	return []Finding{ok("", "version "+s.version)}
}
