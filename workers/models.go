package workers

import (
	"slices"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
)

// Known reports whether one of the named workers, or any if none is named, has the model,
// or had it when it was last ready. Hidden models are known, too.
func (r roster) Known(model string, names ...string) bool {
	return slices.ContainsFunc(r, func(w *Worker) bool {
		s, _ := w.view()
		return among(names, w.name) && offers(s.offered, model)
	})
}

// Abilities are the abilities that codex lists for a model on every worker that has it, or had it when it was last
// ready.
type Abilities struct {
	Known   bool // a worker has the model
	Tiers   []appserver.ServiceTier
	Efforts []appserver.Effort
}

// HasTier reports whether codex requests the service tier for the model.
func (a Abilities) HasTier(tier string) bool {
	return tier == "flex" || !a.Known || slices.Contains(a.Tiers, appserver.ServiceTier{ID: tier})
}

// Abilities returns the abilities that the workers' codex lists for a model.
func (r roster) Abilities(model string) (a Abilities) {
	for _, w := range r {
		s, _ := w.view()
		for _, m := range s.offered {
			switch {
			case m.ID != model:
			case a.Known:
				a.Tiers, a.Efforts = both(a.Tiers, m.Tiers), both(a.Efforts, m.Efforts)
			default:
				a = Abilities{true, m.Tiers, m.Efforts}
			}
		}
	}
	return a
}

// both has the values that both lists have. It changes neither.
func both[T comparable](a, b []T) []T {
	if slices.Equal(a, b) {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(v T) bool { return !slices.Contains(b, v) })
}

// among reports whether the worker is one of the named ones, or none is named.
func among(names []string, worker string) bool {
	return len(names) == 0 || slices.Contains(names, worker)
}

// Models are the models of each named worker that is ready or on standby, or of
// all if none is named; each once, in the workers' order. Those of a standby are the ones
// that it listed when it was last ready.
func (p *Pool) Models(names ...string) []string {
	var ids []string
	for i, w := range p.Snapshot().Workers {
		if !among(names, w.Name) {
			continue
		}
		var offered []string
		switch {
		case w.Ready:
			offered = w.Handshake.Models
		case w.Reason == probes.Standby: // a request starts it
			s, _ := p.roster[i].view()
			offered = listed(s.offered)
		}
		for _, id := range offered {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Lacks reports whether none of the named workers has the model; it is false while one of them may.
func (p *Pool) Lacks(model string, names ...string) bool {
	return !p.Known(model, names...) && !slices.ContainsFunc(p.Snapshot().Workers, func(w probes.Worker) bool {
		return among(names, w.Name) && !w.Ready && w.Reason != probes.Standby
	})
}

// offers reports whether the worker can run the model. Hidden models run, too;
// they are only not listed.
func offers(models []appserver.Model, id string) bool {
	return slices.ContainsFunc(models, func(m appserver.Model) bool { return m.ID == id })
}

// listed are the ids of the models that are not hidden.
func listed(models []appserver.Model) []string {
	ids := []string{}
	for _, m := range models {
		if !m.Hidden {
			ids = append(ids, m.ID)
		}
	}
	return ids
}
