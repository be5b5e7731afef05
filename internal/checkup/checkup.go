package checkup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Limit bounds each check. The slowest runs codex twice; on a busy machine polkit takes seconds for its first answers.
const Limit = 25 * time.Second

// Stage is a part of a report: the findings of an earlier stage explain later ones.
type Stage int

// The stages, in their order.
const (
	Ground   Stage = iota // systemd, and the files of the packages
	Programs              // that the units run
	Files                 // settings and data
	Service               // its sockets, and its own report
	Features              // the units beside the service
	Machine               // the network and the kernel
)

// Check is one check of a program's doctor. Its name is stable: scripts match on it.
type Check struct {
	Name  string
	Stage Stage
	Run   func(context.Context) []Finding
}

// Examine makes every check, and reports by stage, in the order of the checks. It returns within half a minute even if
// checks hang.
func Examine(ctx context.Context, checks []Check) Report {
	checks = slices.SortedStableFunc(slices.Values(checks), func(a, b Check) int {
		return cmp.Compare(a.Stage, b.Stage)
	})
	found := make([]chan []Finding, len(checks))
	for i, c := range checks {
		found[i] = make(chan []Finding, 1)
		go func() { found[i] <- c.examine(ctx) }()
	}
	// A check may hang in the kernel, on a dead file system, where no context reaches
	// it: Examine abandons it then.
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), Limit+time.Second)
	defer cancel()
	var r Report
	for i, c := range checks {
		r.Add(c.Name, c.await(patience, found[i]))
	}
	return r
}

func (c Check) await(patience context.Context, found <-chan []Finding) []Finding {
	select {
	case f := <-found:
		return f
	case <-patience.Done():
	}
	select {
	case f := <-found: // both channels were ready
		return f
	default:
		return []Finding{Failure("", fmt.Sprintf("not checked: no answer within %s", Limit),
			"look for a file system or service that hangs (dmesg, systemctl list-jobs)")}
	}
}

func (c Check) examine(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	return c.Run(ctx)
}
