package dependencyconfig

import (
	"maps"
	"slices"

	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
)

func (r rawProbe) filled(f *filling) Probe {
	return Probe{Check: f.one("probe.check", r.Check), Ready: f.one("probe.ready", r.Ready),
		Interval: r.Interval.Duration, Timeout: r.Timeout.Duration, Failures: r.Failures, Passes: r.Passes,
		Status: r.Status, Body: r.Body, CA: r.CA}
}

// filling fills the placeholders of many values, and keeps the first error.
type filling struct {
	placeholders
	err error
}

func (f *filling) one(key, text string) string {
	filled, err := f.fill(text)
	if err == nil {
		err = unitfile.Printable(filled)
	}
	if err != nil && f.err == nil {
		f.err = settingsfile.Wrong(key, "%v", err)
	}
	return filled
}

func (f *filling) all(key string, texts []string) []string {
	if len(texts) > maxWords && f.err == nil {
		f.err = settingsfile.Wrong(key, "has more than %d words: put them into a script", maxWords)
		return nil
	}
	filled := make([]string, len(texts))
	for i, text := range texts {
		filled[i] = f.one(key, text)
	}
	return filled
}

func (f *filling) values(key string, texts map[string]string) map[string]string {
	filled := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		filled[name] = f.one(key+"."+name, texts[name])
	}
	return filled
}
