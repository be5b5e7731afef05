package config

import (
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// bad is the error of a value. go-toml finds the line by text, which it does without
// help only for strings.
func bad(text []byte, format string, args ...any) error {
	return unstable.NewParserError(text, format, args...)
}

// duration has the form "1m30s". Like days and slogLevel it is a struct: go-toml
// stores a number in a numeric type without a call of UnmarshalText.
type duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return bad(text, "%q is not a duration such as \"300ms\", \"15s\" or \"5m\"", text)
	}
	d.Duration = v
	return nil
}

// days has the form "400d".
type days struct{ n int }

// maxDays is ten years.
const maxDays = 3660

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *days) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "d")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > maxDays {
		return bad(text, "%q is not a number of days from \"1d\" to \"%dd\"", text, maxDays)
	}
	d.n = n
	return nil
}

// slogLevel is debug, info, warn or error.
type slogLevel struct{ slog.Level }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *slogLevel) UnmarshalText(text []byte) error {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	v, ok := levels[string(text)]
	if !ok {
		return bad(text, "%q is not a log level: debug, info, warn or error", text)
	}
	l.Level = v
	return nil
}

// prefix is a network such as "10.0.0.0/8".
type prefix netip.Prefix

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *prefix) UnmarshalText(text []byte) error {
	v, err := netip.ParsePrefix(string(text))
	if err != nil {
		return bad(text, "%q is not a network such as \"10.0.0.0/8\", \"192.168.1.7/32\" or \"fd00::/8\"", text)
	}
	if v != v.Masked() {
		return bad(text, "%q is an address within a network: write %q or \"%s/%d\"", text, v.Masked(),
			v.Addr(), v.Addr().BitLen())
	}
	if v.Addr().Is4In6() { // addresses are compared as IPv4
		return bad(text, "%q is a network of IPv4: write %q", text, netip.PrefixFrom(v.Addr().Unmap(), v.Bits()-96))
	}
	*p = prefix(v)
	return nil
}

// count is a number, or "all".
type count struct {
	n     int
	given bool // n counts
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *count) UnmarshalText(text []byte) error {
	if string(text) == "all" {
		*c = count{}
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return bad(text, "%q is not a number, nor \"all\"", text)
	}
	*c = count{n, true}
	return nil
}
