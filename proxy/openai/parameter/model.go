package parameter

import (
	"fmt"

	"codex-proxy/proxy/openai"
)

// CheckModel refuses a missing or too long name of a model.
func CheckModel(model string) error {
	switch {
	case model == "":
		return openai.Invalid("model_required", "model", "model is required; GET /v1/models lists what there is")
	case len(model) > openai.MaxModelName:
		return openai.Invalid("invalid_value", "model", fmt.Sprintf("model must not be longer than %d bytes",
			openai.MaxModelName))
	}
	return nil
}
