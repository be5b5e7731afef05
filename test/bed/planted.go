package bed

// Planted are texts of clients and of the model, which a search can find wherever they
// are left. None is part of another.
var Planted = map[string]string{
	"prompt":   "planted-prompt-7c1f",
	"system":   "planted-system-0b5e",
	"answer":   "planted-answer-93ad",
	"refusal":  "planted-refusal-e2c4",
	"stranger": "sk-planted-stranger-51fb",
	"query":    "planted-query-a66d",
	"field":    "planted-field-d017",
	"held":     "planted-held-88b2",
	"tool":     "planted_tool_19ec",
	"argument": "planted-argument-f3a8",
	"result":   "planted-result-6d72",
	"image":    "planted-image-2b90",
}
