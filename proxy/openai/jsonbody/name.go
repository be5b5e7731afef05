package jsonbody

import (
	"fmt"
	"strings"

	"codex-proxy/proxy/openai"
)

// maxToolName bounds a name. Measured: codex 0.169 takes names of 128 bytes.
const maxToolName = 128

// CheckName applies the rule of the OpenAI reference, with the maximum length of codex.
func CheckName(at, name string) error {
	switch {
	case name == "":
		return openai.Invalid("name_required", at, at+" is required")
	case len(name) > maxToolName:
		return openai.Invalid("invalid_value", at, fmt.Sprintf("%s must not be longer than %d characters", at,
			maxToolName))
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "":
		return openai.Invalid("invalid_value", at,
			fmt.Sprintf("%s must be of the characters a-z A-Z 0-9 _ -; %q is not", at, openai.Clip(name)))
	}
	return nil
}
