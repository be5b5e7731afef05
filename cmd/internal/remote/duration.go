package remote

import (
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// duration has the form "1m30s". It is a struct: go-toml stores a number in a numeric type without a call of
// UnmarshalText.
type duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return unstable.NewParserError(text, "%q is not a duration such as \"300ms\", \"15s\" or \"5m\"", text)
	}
	d.Duration = v
	return nil
}
