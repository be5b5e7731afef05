package parameter

import (
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// MaxChoices bounds n: each choice is a turn of its own.
const MaxChoices = 8

// CheckChoices checks n, which may be nil.
func CheckChoices(n *jsonbody.Whole) error {
	if Choices(n) < 1 || Choices(n) > MaxChoices {
		return openai.Invalid("invalid_value", "n", fmt.Sprintf("n must be from 1 to %d", MaxChoices))
	}
	return nil
}

// Choices is the number of choices of a request with that n.
func Choices(n *jsonbody.Whole) int {
	if n == nil {
		return 1
	}
	return int(*n)
}
