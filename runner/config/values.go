package config

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"codex-proxy/runner/environments"

	"github.com/pelletier/go-toml/v2/unstable"
)

// bad is the error of a value. go-toml finds the line by its text.
func bad(text []byte, format string, args ...any) error {
	return unstable.NewParserError(text, format, args...)
}

// duration has the form "1m30s". Like size and level it is a struct: go-toml stores a number in a numeric type without
// a call of UnmarshalText.
type duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return bad(text, `%q is not a duration such as "300ms", "15s" or "1h30m"`, text)
	}
	d.Duration = v
	return nil
}

// size has the form "2G": bytes, with K, M, G or T for powers of 1024, as in systemd.resource-control(5).
type size struct{ bytes int64 }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *size) UnmarshalText(text []byte) error {
	const units = "KMGT"
	number := strings.TrimRight(string(text), units)
	shift := 0
	if unit := string(text[len(number):]); len(unit) == 1 {
		shift = 10 * (strings.Index(units, unit) + 1)
	} else if unit != "" {
		number = ""
	}
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil || v < 0 || v<<shift>>shift != v {
		return bad(text, `%q is not a size such as "64M" or "2G"`, text)
	}
	s.bytes = v << shift
	return nil
}

// builds is all, online or none.
type builds struct{ environments.BuildNetwork }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *builds) UnmarshalText(text []byte) error {
	switch v := environments.BuildNetwork(text); v {
	case environments.BuildsForAll, environments.BuildsForOnline, environments.BuildsForNone:
		b.BuildNetwork = v
		return nil
	}
	return bad(text, "%q is not one of all, online and none", text)
}

// level is debug, info, warn or error.
type level struct{ slog.Level }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *level) UnmarshalText(text []byte) error {
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
