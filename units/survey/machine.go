package survey

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
)

// cgroup checks that limits of units are enforced: systemd accepts limits of a
// missing controller without effect.
func (w *whole) cgroup(context.Context) []checkup.Finding {
	have, missing, err := w.Controllers()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return checkup.Warning("", "not checked: "+err.Error(), "run it as root: sudo codex-proxy doctor").Alone()
	}
	if err != nil {
		return checkup.Warning("", "there is no unified hierarchy: limits of units may not be enforced",
			"boot with systemd.unified_cgroup_hierarchy=1").Alone()
	}
	if len(missing) > 0 {
		return checkup.Warning("", "the controllers "+strings.Join(missing,
			", ")+" are missing: MemoryMax=, TasksMax= and CPUQuota= of these are accepted and not enforced",
			"on a virtual server or in a container, ask for them; else boot with cgroup_enable=memory").Alone()
	}
	return checkup.Passed("", "controllers "+strings.Join(have, ", ")).Alone()
}

// Controllers are the controllers of cgroups that systemd has, and those that limits of units need and that are
// missing.
func (m Machine) Controllers() (have, missing []string, err error) {
	text, err := os.ReadFile(m.Path("/sys/fs/cgroup/cgroup.controllers"))
	have = strings.Fields(string(text))
	return have, slices.DeleteFunc([]string{"cpu", "memory", "pids"},
		func(name string) bool { return slices.Contains(have, name) }), err
}

// Clock is the state of the machine's clock.
type Clock struct {
	Now    time.Time
	Synced bool // the kernel calls it synchronised (adjtimex(2))
}

// clockSlack bounds the difference between the clocks of this machine and of the one
// that built the program.
const clockSlack = 24 * time.Hour

// clock checks the time: certificates and logins depend on it.
func (w *whole) clock(context.Context) []checkup.Finding {
	c, err := w.Clock()
	if err != nil {
		return checkup.Warning("", "not checked: "+err.Error(), "timedatectl").Alone()
	}
	if info, err := os.Stat(w.Path(paths.Program)); err == nil && c.Now.Before(info.ModTime().Add(-clockSlack)) {
		return checkup.Failure("", "it is "+c.Now.UTC().Format(time.RFC3339)+", before the installed program was "+
			"built: certificates and logins will not be valid", "timedatectl set-ntp true").Alone()
	}
	if !c.Synced {
		return checkup.Warning("", "the clock is not synchronised with anything",
			"timedatectl set-ntp true (with systemd-timesyncd or chrony)").Alone()
	}
	return checkup.Passed("", "synchronised").Alone()
}
