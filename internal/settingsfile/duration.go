package settingsfile

import (
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Duration has the form "1m30s". It is a struct: go-toml stores a number in a numeric type without a call of
// UnmarshalText.
type Duration struct{ time.Duration }

// Lasting is a Duration.
func Lasting(d time.Duration) Duration { return Duration{d} }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return unstable.NewParserError(text, "%q is not a duration such as \"300ms\", \"15s\" or \"5m\"", text)
	}
	d.Duration = v
	return nil
}
