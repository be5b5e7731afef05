package parameter

import (
	"slices"

	"codex-proxy/proxy/openai"
)

// CheckVerbosity refuses a verbosity that does not exist; at is its path.
func CheckVerbosity(at, verbosity string) error {
	if !slices.Contains([]string{"", "low", "medium", "high"}, verbosity) {
		return openai.Invalid("invalid_value", at, at+" must be low, medium or high")
	}
	return nil
}
