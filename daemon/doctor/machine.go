package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// checkCgroup checks that limits of units are enforced: systemd accepts limits of a
// missing controller without effect.
func checkCgroup(_ context.Context, s *survey) []Finding {
	text, err := os.ReadFile(s.path("/sys/fs/cgroup/cgroup.controllers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []Finding{warn("", "not checked: "+err.Error(), "run it as root: sudo codex-proxy doctor")}
	}
	if err != nil {
		return []Finding{warn("", "there is no unified hierarchy: limits of units may not be enforced",
			"boot with systemd.unified_cgroup_hierarchy=1")}
	}
	have := strings.Fields(string(text))
	var missing []string
	for _, name := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(have, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return []Finding{warn("", "the controllers "+strings.Join(missing,
			", ")+" are missing: MemoryMax=, TasksMax= and CPUQuota= of these are accepted and not enforced",
			"on a virtual server or in a container, ask for them; else boot with cgroup_enable=memory")}
	}
	return []Finding{ok("", "controllers "+strings.Join(have, ", "))}
}

// clockSlack bounds the difference between the clocks of this machine and of the one
// that built the program.
const clockSlack = 24 * time.Hour

// checkClock checks the time: certificates and logins depend on it.
func checkClock(_ context.Context, s *survey) []Finding {
	c, err := s.Clock()
	if err != nil {
		return []Finding{warn("", "not checked: "+err.Error(), "timedatectl")}
	}
	if info, err := os.Stat(s.path(program)); err == nil && c.Now.Before(info.ModTime().Add(-clockSlack)) {
		return []Finding{fail("", "it is "+c.Now.UTC().Format(time.RFC3339)+", before the installed program was "+
			"built: certificates and logins will not be valid",
			"timedatectl set-ntp true")}
	}
	if !c.Synced {
		return []Finding{warn("", "the clock is not synchronised with anything",
			"timedatectl set-ntp true (with systemd-timesyncd or chrony)")}
	}
	return []Finding{ok("", "synchronised")}
}
