package survey

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"codex-proxy/internal/checkup"
)

const (
	oldestSystemd = 252
	// growingDelays is the first version with RestartSteps= and RestartMaxDelaySec=.
	// Before it, package restartdelay waits in its place.
	growingDelays = 254
)

// systemd checks the version of systemd.
func (w *whole) systemd(context.Context) []checkup.Finding {
	if w.BusErr != nil {
		return checkup.Unchecked("", "systemd does not answer", "bus").Alone()
	}
	if f, bad := JudgeVersion(w.Version, "codex-proxy"); bad {
		return f.Alone()
	}
	if major(w.Version) < growingDelays {
		return checkup.Passed("",
			"version "+w.Version+": has no growing restart delays, the units themselves wait for them").Alone()
	}
	return checkup.Passed("", "version "+w.Version).Alone()
}

// JudgeVersion returns the fault of a version of systemd on which the units of the program do not run.
func JudgeVersion(version, program string) (checkup.Finding, bool) {
	switch n := major(version); {
	case n == 0:
		return checkup.Warning("", fmt.Sprintf("its version %q cannot be read", version),
			fmt.Sprintf("make sure that it is %d or later", oldestSystemd)), true
	case n < oldestSystemd:
		return checkup.Failure("", "version "+version+" is too old",
			fmt.Sprintf("%s needs systemd %d or later (Debian 12)", program, oldestSystemd)), true
	}
	return checkup.Finding{}, false
}

// major is the number at the beginning of a version; 0 if there is none.
func major(version string) int {
	digits := strings.IndexFunc(version+" ", func(r rune) bool { return r < '0' || r > '9' })
	n, _ := strconv.Atoi(version[:digits])
	return n
}
