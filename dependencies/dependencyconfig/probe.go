package dependencyconfig

import (
	"cmp"
	"errors"

	"codex-proxy/codex/probe"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
)

func (p Probe) check() error {
	switch {
	case p.Check == "":
		return settingsfile.Wrong("probe.check", `is missing: name how to find out whether the server works, such as `+
			`"tcp:127.0.0.1:8080" or "http://127.0.0.1:8080/health"`)
	case p.Failures < 2 || p.Failures > 100:
		return settingsfile.Wrong("probe.failures", "%d must be between 2 and 100", p.Failures)
	case p.Passes < 1 || p.Passes > 100:
		return settingsfile.Wrong("probe.passes", "%d must be between 1 and 100", p.Passes)
	case p.Failures == 2 && p.Timeout >= p.Interval:
		return settingsfile.Wrong("probe.timeout",
			"%q must be less than interval = %q with failures = 2, or systemd kills a "+
				"server that works", p.Timeout, p.Interval)
	}
	return p.checkKinds()
}

// checkKinds checks the probes as notify-exec reads them.
func (p Probe) checkKinds() error {
	options := probe.Options{Statuses: p.Status, Body: p.Body, CA: p.CA}
	var probes []probe.Probe
	for _, of := range []struct{ key, value string }{{"probe.check", p.Check}, {"probe.ready", p.Ready}} {
		if of.value == "" {
			continue
		}
		parsed, err := probe.Parse(of.value, options)
		if err != nil {
			return settingsfile.Wrong(of.key, "%q: %v", of.value, err)
		}
		probes = append(probes, parsed)
	}
	if len(p.Status) > maxItems {
		return settingsfile.Wrong("probe.status", "has more than %d", maxItems)
	}
	var fault *probe.OptionError
	if err := options.UsedBy(probes...); errors.As(err, &fault) {
		return settingsfile.Wrong("probe."+fault.Option, "%s", fault.Reason)
	}
	if err := unitfile.Printable(p.Body); err != nil {
		return settingsfile.Wrong("probe.body", "%v", err)
	}
	if p.CA == "" {
		return nil
	}
	return cmp.Or(checkPath("probe.ca", p.CA), checkVisible("probe.ca", p.CA))
}
