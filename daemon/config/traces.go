package config

import (
	"cmp"
	"fmt"
	"net/url"
)

// tracesPath is the path of OTLP/HTTP.
const tracesPath = "/v1/traces"

// Traces is the table [traces].
type Traces struct {
	Endpoint    string  // URL of an OTLP collector; empty: there are no traces
	SampleRatio float64 // of the requests, 0 to 1
}

// rawTraces is the table [traces].
type rawTraces struct {
	Endpoint    string  `toml:"endpoint"`
	SampleRatio float64 `toml:"sample_ratio"`
}

// LoadTraces reads [traces] alone, for the unit that sends traces. A variable of OpenTelemetry replaces the
// endpoint.
func LoadTraces(path string, set []string) (*Traces, error) {
	r, err := load(path, set)
	if err != nil {
		return nil, err
	}
	traces, err := r.Traces.validate()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	endpoint, err := environmentEndpoint()
	if err != nil {
		return nil, err
	}
	traces.Endpoint = cmp.Or(endpoint, traces.Endpoint)
	return &traces, nil
}

// Host returns the name or address of the collector.
func (t *Traces) Host() string {
	u, err := url.Parse(t.Endpoint)
	if err != nil { // validate accepts none like that
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
	u, err := collectorURL(r.Endpoint)
	if err != nil {
		return Traces{}, fmt.Errorf("traces.endpoint: %v", err)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = tracesPath
	}
	return Traces{Endpoint: u.String(), SampleRatio: r.SampleRatio}, nil
}
