package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// toolChoice lists the tools that the model may or must call. Codex always sends "auto": tools that may not be called
// are not offered, and an instruction asks for a call that must be made.
type toolChoice struct {
	must  bool       // the model must call a tool
	names []toolName // of the tools that it may call; nil means all
}

// chooseTools decodes tool_choice. named returns the name in {"type":"function",…} and {"type":"custom",…}, which
// differ between the two APIs; group does so for {"type":"allowed_tools",…}.
func chooseTools(raw json.RawMessage, named func(json.RawMessage) toolName,
	group func(json.RawMessage) allowedTools) (toolChoice, error) {
	if isUnset(raw) && string(raw) != `"none"` {
		return toolChoice{}, nil
	}
	var word string
	if unmarshal(raw, &word) == nil {
		return choiceByWord("tool_choice", word)
	}
	var head struct {
		Type string `json:"type"`
	}
	if unmarshal(raw, &head) != nil {
		return toolChoice{}, Invalid("invalid_type", "tool_choice", "tool_choice must be a string or an object")
	}
	switch head.Type {
	case "function", "custom":
		return toolChoice{must: true, names: []toolName{named(raw)}}, nil
	case "allowed_tools":
		return choiceOf(group(raw), named)
	default:
		return toolChoice{}, unsupported("tool_choice.type",
			fmt.Sprintf("tool_choice.type must be function, custom or allowed_tools; %q is not supported",
				clip(head.Type)))
	}
}

func choiceByWord(at, word string) (toolChoice, error) {
	switch word {
	case "auto":
		return toolChoice{}, nil
	case "none":
		return toolChoice{names: []toolName{}}, nil
	case "required":
		return toolChoice{must: true}, nil
	}
	return toolChoice{}, Invalid("invalid_value", at, at+" must be none, auto or required, or name a function")
}

// allowedTools is the body of {"type":"allowed_tools",…}.
type allowedTools struct {
	Mode  string                       `json:"mode"`
	Tools boundedList[json.RawMessage] `json:"tools"`
}

func choiceOf(allowed allowedTools, named func(json.RawMessage) toolName) (toolChoice, error) {
	if allowed.Mode != "auto" && allowed.Mode != "required" {
		return toolChoice{}, Invalid("invalid_value", "tool_choice.mode",
			"the mode of allowed_tools must be auto or required")
	}
	if len(allowed.Tools) > maxTools {
		return toolChoice{}, Invalid("invalid_value", "tool_choice.tools",
			fmt.Sprintf("allowed_tools must not hold more than %d tools", maxTools))
	}
	choice := toolChoice{must: allowed.Mode == "required", names: []toolName{}}
	for _, tool := range allowed.Tools {
		choice.names = append(choice.names, named(tool))
	}
	return choice, nil
}

// apply returns the tools that the model may call.
func (c toolChoice) apply(at string, tools []ClientTool) ([]ClientTool, error) {
	chosen := map[string]bool{}
	for _, name := range c.names {
		chosen[name.wire()] = true
		if !slices.ContainsFunc(tools, func(t ClientTool) bool { return t.Wire.Name == name.wire() }) {
			return nil, Invalid("invalid_value", at,
				fmt.Sprintf("%s names the function %q, which is not among the tools", at, clip(name.name)))
		}
	}
	if c.must && len(tools) == 0 {
		return nil, Invalid("invalid_value", at, at+" asks for a call, and there are no tools")
	}
	if c.names == nil {
		return tools, nil
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t ClientTool) bool { return !chosen[t.Wire.Name] }), nil
}

// instruction asks the model in words for a call, which codex cannot enforce. The model knows the tools by their wire
// names.
func (c toolChoice) instruction() string {
	var names []string
	for _, name := range c.names {
		names = append(names, name.wire())
	}
	switch {
	case !c.must:
		return ""
	case len(names) == 1:
		return fmt.Sprintf("Your next message must be a call of the function %s. Do not answer in words.", names[0])
	case len(names) > 1:
		return fmt.Sprintf("Your next message must be a call of one of the functions %s. Do not answer in words.",
			strings.Join(names, ", "))
	default:
		return "Your next message must be a call of one of your functions. Do not answer in words."
	}
}

// oneCall is the instruction for clients that accept one call at a time.
const oneCall = "Call at most one function in a message; call the next one when you have the result."
