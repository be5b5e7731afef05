package openai

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Limits on tools. Measured: codex 0.169 takes 300 tools and names of 128 bytes.
const (
	maxTools    = 512
	maxToolName = 128
)

// Tool is a function of the client that the model may call, in the form for codex.
type Tool struct {
	Name string `json:"name"` // see WireName
	// Description is the client's, followed by the schema if codex would not pass that on whole.
	Description string `json:"description"`
	// Parameters is a JSON schema of type object.
	Parameters json.RawMessage `json:"parameters"`
}

// noParameters is the schema of a function without parameters.
var noParameters = json.RawMessage(`{"type":"object","properties":{}}`)

// newTool is the tool of that name for codex and the model. It refuses parameters that codex would refuse or silently
// drop. at is the path of the parameters.
func newTool(at, name, description string, parameters json.RawMessage) (Tool, error) {
	if isUnset(parameters) {
		return Tool{name, description, noParameters}, nil
	}
	whole, err := checkParameters(at, parameters)
	if err != nil {
		return Tool{}, err
	}
	if !whole {
		description = strings.TrimLeft(description+"\n\nJSON schema of the parameters: "+string(compact(parameters)),
			"\n")
	}
	return Tool{name, description, parameters}, nil
}

// checkToolName applies the rule of the OpenAI reference, with the maximum length of codex.
func checkToolName(at, name string) error {
	switch {
	case name == "":
		return Invalid("name_required", at, at+" is required")
	case len(name) > maxToolName:
		return Invalid("invalid_value", at, fmt.Sprintf("%s must not be longer than %d characters", at, maxToolName))
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "":
		return Invalid("invalid_value", at,
			fmt.Sprintf("%s must be of the characters a-z A-Z 0-9 _ -; %q is not", at, clip(name)))
	}
	return nil
}
