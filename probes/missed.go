package probes

import "slices"

// missed are the dependencies that keep the service or a worker from being ready.
func missed(all []Dependency, workers []Worker) (missed []Dependency) {
	for _, d := range all {
		if !d.Ready && (d.HoldsService || slices.ContainsFunc(workers, d.keeps)) {
			missed = append(missed, d)
		}
	}
	return missed
}

// keeps reports whether the worker is not ready for want of the dependency.
func (d Dependency) keeps(w Worker) bool {
	return w.Reason == DependencyNotReady && slices.Contains(w.Unmet, d.Name)
}

// held reports whether a dependency keeps the whole service from being ready.
func (s Snapshot) held() bool {
	return slices.ContainsFunc(s.Dependencies, func(d Dependency) bool { return d.HoldsService && !d.Ready })
}

// awaitsDependency reports whether the worker is about to be ready, with a dependency that
// starts.
func (s Snapshot) awaitsDependency(w Worker) bool {
	rests := func(d Dependency) bool { return d.Reason != DependencyStarting }
	return w.Reason == DependencyNotReady && !slices.ContainsFunc(missed(s.Dependencies, []Worker{w}), rests)
}
