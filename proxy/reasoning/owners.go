package reasoning

import (
	"cmp"
	"slices"

	"codex-proxy/codex/history"
	"codex-proxy/proxy/turn"
)

// Owners are the workers that made the reasoning in a history. The zero value has none.
type Owners struct {
	of   map[string]string // item as it is injected → origin of the worker, or empty
	last string            // origin, the last one that is not empty
}

// Add adds an item of reasoning, with the origin of the worker that made it; empty: unknown.
func (o *Owners) Add(item history.Item, origin string) {
	if o.of == nil {
		o.of = map[string]string{}
	}
	o.of[string(item)], o.last = origin, cmp.Or(origin, o.last)
}

// Fit returns a turn.Request.Fit that leaves out the reasoning of other accounts.
func (o *Owners) Fit(turns *turn.Runner) func(worker string, items []history.Item) []history.Item {
	return func(worker string, items []history.Item) []history.Item {
		return o.Only(Fitting(turns, worker), items)
	}
}

// Only leaves out the reasoning that has none of these origins.
func (o *Owners) Only(origins []string, items []history.Item) []history.Item {
	fit := make([]history.Item, 0, len(items))
	for _, item := range items {
		if from, reasoning := o.of[string(item)]; !reasoning || slices.Contains(origins, from) {
			fit = append(fit, item)
		}
	}
	return fit
}

// Prefers returns the worker that made the last of the reasoning; empty if workers does not have it.
func (o *Owners) Prefers(workers []string) string {
	if o.last == "" {
		return ""
	}
	for _, name := range workers {
		if Origin(name) == o.last {
			return name
		}
	}
	return ""
}
