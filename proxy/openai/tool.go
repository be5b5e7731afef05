package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Limits on tools. Measured: codex 0.169 takes 300 tools and names of 128 bytes.
const (
	maxTools    = 512
	maxToolName = 128
)

// Tool is a function of the client that the model may call.
type Tool struct {
	Name string
	// Description is the client's, followed by the schema if codex would not pass that on whole.
	Description string
	// Parameters is a JSON schema of type object.
	Parameters json.RawMessage
}

// noParameters is the schema of a function without parameters.
var noParameters = json.RawMessage(`{"type":"object","properties":{}}`)

// newTool refuses tools that codex would refuse or silently drop. at is the path of the object that holds name,
// description and parameters.
func newTool(at, name, description string, parameters json.RawMessage) (Tool, error) {
	if err := checkToolName(at+".name", name); err != nil {
		return Tool{}, err
	}
	if name == "mcp" || strings.HasPrefix(name, "mcp__") {
		return Tool{}, Invalid("invalid_value", at+".name", fmt.Sprintf(
			"%s.name: codex keeps mcp and names that begin with mcp__ to itself; rename %q", at, clip(name)))
	}
	if slices.Contains(hiddenNames, name) {
		return Tool{}, Invalid("invalid_value", at+".name", fmt.Sprintf(
			"%s.name: codex takes %q for a tool of its own and hides it from the model; rename it", at, name))
	}
	if isUnset(parameters) {
		return Tool{name, description, noParameters}, nil
	}
	whole, err := checkParameters(at+".parameters", parameters)
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

// checkTools refuses too long lists and duplicate names. named returns the path of the name of the i-th tool.
func checkTools(at string, tools []Tool, named func(i int) string) error {
	if len(tools) > maxTools {
		return Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d tools", at, maxTools))
	}
	first := map[string]int{}
	for i, t := range tools {
		if j, ok := first[t.Name]; ok {
			return Invalid("invalid_value", named(i),
				fmt.Sprintf("%s: %q is the name of %s, too; names must be different", named(i), t.Name, named(j)))
		}
		first[t.Name] = i
	}
	return nil
}
