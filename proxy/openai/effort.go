package openai

import "slices"

// Efforts are the values of reasoning_effort.
func Efforts() []string { return slices.Clone(efforts) }
