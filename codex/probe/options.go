package probe

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"codex-proxy/probes/check"
)

// Options hold for all probes of one command.
type Options struct {
	Version  string // of our program, in the handshake with codex
	Statuses []int  // of HTTP: those that pass; empty: 200 to 399
	Body     string // of HTTP: text that the body contains
	CA       string // of TLS: the path of a PEM file; empty: the system's authorities
}

// OptionError is an option with a wrong value, or one that no probe has.
type OptionError struct {
	Option string // "status", "body" or "ca"
	Reason string
}

// Error implements error.
func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

// UsedBy checks the options, and that each one which is set is used by one of the
// probes. The error is an *OptionError.
func (o Options) UsedBy(probes ...Probe) error {
	http := slices.ContainsFunc(probes, func(p Probe) bool { return p.http })
	tls := slices.ContainsFunc(probes, func(p Probe) bool { return p.tls })
	for _, status := range o.Statuses {
		if status < 100 || status > 599 {
			return &OptionError{"status", strconv.Itoa(status) + " is no status of HTTP: want 100 to 599"}
		}
	}
	switch {
	case len(o.Statuses) != 0 && !http:
		return &OptionError{"status", "only a probe http: has it"}
	case o.Body != "" && !http:
		return &OptionError{"body", "only a probe http: has it"}
	case o.CA != "" && !tls:
		return &OptionError{"ca", "only the probes https: and grpcs: have it"}
	case o.CA != "" && !filepath.IsAbs(o.CA):
		return &OptionError{"ca", "give an absolute path"}
	default:
		return nil
	}
}

func (o Options) answer() check.HTTPAnswer {
	return check.HTTPAnswer{Statuses: o.Statuses, Body: o.Body, Authorities: o.CA}
}

// ParseStatuses reads a list such as 200,204.
func ParseStatuses(text string) (statuses []int, err error) {
	for word := range strings.SplitSeq(text, ",") {
		status, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return nil, errors.New("want statuses of HTTP, such as 200 or 200,204")
		}
		statuses = append(statuses, status)
	}
	return statuses, nil
}
