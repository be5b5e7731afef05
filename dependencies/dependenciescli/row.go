package dependenciescli

import (
	"fmt"
	"time"

	"codex-proxy/dependencies"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/probes"
	"codex-proxy/units"
)

// row is one dependency: the state of its unit, and the requests of its file.
type row struct {
	probes.Dependency

	Check    string `json:"check,omitempty"`
	Interval string `json:"interval,omitempty"` // of the check
	AtReady  string `json:"at_ready,omitempty"` // the check that must pass before it is ready, too
	AtBoot   bool   `json:"at_boot"`
	Error    string `json:"error,omitempty"` // the fault of the file
}

func rowOf(name, file string, by []string, unit units.Description) row {
	r := row{AtBoot: unit.FileState == "enabled"}
	r.Dependency = dependencies.Once(dependencies.Required{Name: name, By: append([]string{}, by...)}, unit.State)
	s, err := dependencyconfig.Load(file)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.Check, r.Interval, r.AtReady = s.Probe.Check, s.Probe.Interval.String(), s.Probe.Ready
	return r
}

// checkLine is "grpc:127.0.0.1:7233 every 5s, and temporal:127.0.0.1:7233 at the start".
func (r row) checkLine() string {
	if r.Check == "" {
		return ""
	}
	words := fmt.Sprintf("%s every %s", r.Check, r.Interval)
	if r.AtReady != "" {
		words += ", and " + r.AtReady + " at the start"
	}
	return words
}

// counted takes over the counts of the service, which are of a longer time than systemd's.
func (r *row) counted(report []probes.Dependency) {
	for _, d := range report {
		if d.Name != r.Name {
			continue
		}
		r.RestartsTotal = max(r.RestartsTotal, d.RestartsTotal)
		if d.Reason == r.Reason && !d.Since.IsZero() {
			r.Since = earlier(r.Since, d.Since)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
