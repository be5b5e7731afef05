package collector

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/proxy/traces"
)

// headerName is a token of RFC 9110.
var headerName = lazyregexp.New("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// variable returns OTEL_EXPORTER_OTLP_TRACES_name or OTEL_EXPORTER_OTLP_name, and which it is.
func variable(name string) (value, key string) {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		key = prefix + name
		if value = strings.TrimSpace(os.Getenv(key)); value != "" {
			break
		}
	}
	return value, key
}

// checkEnvironment returns the first mistake in a variable that the SDK would ignore. It shows no value of a
// header: those are secrets.
func checkEnvironment() error {
	if _, err := timeout(); err != nil {
		return err
	}
	for name, values := range map[string][]string{
		"PROTOCOL":    {"", "grpc", "http/protobuf", "http/json"},
		"COMPRESSION": {"", "gzip", "none"},
	} {
		if value, key := variable(name); !slices.Contains(values, value) {
			return fmt.Errorf("%s = %q: must be one of %s", key, value, strings.Join(values[1:], ", "))
		}
	}
	value, key := variable("HEADERS")
	for pair := range strings.SplitSeq(value, ",") {
		name, text, ok := strings.Cut(pair, "=")
		_, err := url.PathUnescape(text)
		if valid := ok && err == nil && headerName.MatchString(strings.TrimSpace(name)); value != "" && !valid {
			return fmt.Errorf("%s: must be NAME=VALUE,NAME=VALUE, with special characters of a value as %%20", key)
		}
	}
	return nil
}

// timeout returns the bound of one message: at most CollectorTime, as the daemon waits no longer.
func timeout() (time.Duration, error) {
	value, key := variable("TIMEOUT")
	if value == "" {
		return traces.CollectorTime, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%s = %q: must be a number of milliseconds", key, value)
	}
	return min(time.Duration(min(n, 1<<30))*time.Millisecond, traces.CollectorTime), nil
}

// tlsConfig reads the certificates.
func tlsConfig() (*tls.Config, error) {
	config := &tls.Config{}
	if file, key := variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no certificate", key, file)
		}
	}
	file, key := variable("CLIENT_CERTIFICATE")
	if private, _ := variable("CLIENT_KEY"); file != "" && private != "" {
		pair, err := tls.LoadX509KeyPair(file, private)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
