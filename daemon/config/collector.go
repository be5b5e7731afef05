package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
)

// collectorURL parses the URL of a collector.
func collectorURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return nil, errors.New(`must be the URL of an OTLP/HTTP collector, such as "http://127.0.0.1:4318"`)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("must have no user, query or fragment; secrets go into /etc/codex-proxy/traces-headers")
	}
	return u, nil
}

// environmentEndpoint returns the URL in the variables of OpenTelemetry, or an empty one. The variable for
// traces has the whole URL, the other variable has the URL to which the path is added (OpenTelemetry Protocol
// Exporter specification, "Endpoint URLs for OTLP/HTTP").
func environmentEndpoint() (string, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		u, err := collectorURL(text)
		if err != nil {
			return "", fmt.Errorf("%s: %v", name, err)
		}
		if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			u.Path = path.Join(u.Path, tracesPath)
		}
		return u.String(), nil
	}
	return "", nil
}
