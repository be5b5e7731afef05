package config

import (
	"errors"
	"fmt"
	"net/url"
)

// Traces configures the export of traces.
type Traces struct {
	Endpoint    string  // URL of an OTLP/HTTP collector; empty: no traces
	SampleRatio float64 // of the requests, 0 to 1
}

// rawTraces is the table [traces].
type rawTraces struct {
	Endpoint    string  `toml:"endpoint"`
	SampleRatio float64 `toml:"sample_ratio"`
}

// LoadTraces validates [traces] alone: the unit that sends them needs no more.
func LoadTraces(path string, set []string) (*Traces, error) {
	r, err := load(path, set)
	if err != nil {
		return nil, err
	}
	traces, err := r.Traces.validate()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &traces, nil
}

// Host is the name or address of the collector.
func (t *Traces) Host() string {
	u, err := url.Parse(t.Endpoint)
	if err != nil { // validate accepted the URL
		return ""
	}
	return u.Hostname()
}

func (r rawTraces) validate() (Traces, error) {
	if !(r.SampleRatio >= 0 && r.SampleRatio <= 1) { // NaN, too
		return Traces{}, fmt.Errorf("traces.sample_ratio = %v: must be between 0 and 1", r.SampleRatio)
	}
	if r.Endpoint == "" {
		return Traces{SampleRatio: r.SampleRatio}, nil
	}
	u, err := url.Parse(r.Endpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return Traces{}, errors.New(`traces.endpoint: must be the URL of an OTLP/HTTP collector, such as ` +
			`"http://127.0.0.1:4318"`)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return Traces{}, errors.New("traces.endpoint: must have no user, query or fragment; secrets go into " +
			"/etc/codex-proxy/traces-headers")
	case u.Path == "" || u.Path == "/":
		u.Path = "/v1/traces" // OTLP/HTTP's own
	}
	return Traces{Endpoint: u.String(), SampleRatio: r.SampleRatio}, nil
}
