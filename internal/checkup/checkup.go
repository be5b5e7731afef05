package checkup

import (
	"context"
	"fmt"
	"time"
)

// limit bounds each check. The slowest runs codex twice.
const limit = 12 * time.Second

// Check is one check of a survey. Its name is stable: scripts match on it.
type Check[Survey any] struct {
	Name string
	Run  func(context.Context, Survey) []Finding
}

// Examine makes every check, and reports in their order: the findings of earlier checks explain later findings. It
// returns within half a minute even if checks hang.
func Examine[Survey any](ctx context.Context, checks []Check[Survey], s Survey) Report {
	found := make([]chan []Finding, len(checks))
	for i, c := range checks {
		found[i] = make(chan []Finding, 1)
		go func() { found[i] <- c.examine(ctx, s) }()
	}
	// A check may hang in the kernel, on a dead file system, where no context reaches
	// it: Examine abandons it then.
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+time.Second)
	defer cancel()
	var r Report
	for i, c := range checks {
		r.Add(c.Name, c.await(patience, found[i]))
	}
	return r
}

func (c Check[Survey]) await(patience context.Context, found <-chan []Finding) []Finding {
	select {
	case f := <-found:
		return f
	case <-patience.Done():
	}
	select {
	case f := <-found: // both channels were ready
		return f
	default:
		return []Finding{Failure("", fmt.Sprintf("not checked: no answer within %s", limit),
			"look for a file system or service that hangs (dmesg, systemctl list-jobs)")}
	}
}

func (c Check[Survey]) examine(ctx context.Context, s Survey) []Finding {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.Run(ctx, s)
}
