package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// duration is written as "1m30s".
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as \"300ms\", \"15s\" or \"5m\"", text)
	}
	*d = duration(v)
	return nil
}

// days is written as "400d".
type days int

// maxDays is ten years.
const maxDays = 3660

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *days) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "d")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > maxDays {
		return fmt.Errorf("%q is not a number of days from \"1d\" to \"%dd\"", text, maxDays)
	}
	*d = days(n)
	return nil
}

// slogLevel is written as debug, info, warn or error.
type slogLevel slog.Level

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *slogLevel) UnmarshalText(text []byte) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	v, ok := levels[string(text)]
	if !ok {
		return fmt.Errorf("%q is not a log level: debug, info, warn or error", text)
	}
	*l = slogLevel(v)
	return nil
}

// prefix is a network such as "10.0.0.0/8".
type prefix netip.Prefix

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *prefix) UnmarshalText(text []byte) error {
	v, err := netip.ParsePrefix(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a network such as \"10.0.0.0/8\", \"192.168.1.7/32\" or \"fd00::/8\"", text)
	}
	if v != v.Masked() {
		return fmt.Errorf("%q is an address within a network: write %q or \"%s/%d\"", text, v.Masked(), v.Addr(), v.Addr().BitLen())
	}
	*p = prefix(v)
	return nil
}
