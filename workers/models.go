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

// HasTier reports whether codex requests the service tier for the model on every worker that has it, or had it when it
// was last ready.
func (r roster) HasTier(model, tier string) bool {
	return tier == "flex" || r.all(model, func(m appserver.Model) bool {
		return slices.Contains(m.Tiers, appserver.ServiceTier{ID: tier})
	})
}

// HasEffort reports whether a worker has the model, or had it when it was last ready, and every such worker lists the
// effort for it.
func (r roster) HasEffort(model, effort string) bool {
	return r.Known(model) && r.all(model, func(m appserver.Model) bool {
		return slices.Contains(m.Efforts, appserver.Effort{Name: effort})
	})
}

// all reports whether every worker's model of that name satisfies ok.
func (r roster) all(model string, ok func(appserver.Model) bool) bool {
	return !slices.ContainsFunc(r, func(w *Worker) bool {
		s, _ := w.view()
		return slices.ContainsFunc(s.offered, func(m appserver.Model) bool { return m.ID == model && !ok(m) })
	})
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
	for _, w := range p.Snapshot().Workers {
		if !among(names, w.Name) {
			continue
		}
		var offered []string
		switch {
		case w.Ready:
			offered = w.Handshake.Models
		case w.Reason == probes.Standby: // a request starts it
			offered = p.lastListed(w.Name)
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

// lastListed are the models that the worker listed when it was last ready.
func (r roster) lastListed(name string) []string {
	w, err := r.find(name)
	if err != nil {
		return nil
	}
	s, _ := w.view()
	return listed(s.offered)
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
