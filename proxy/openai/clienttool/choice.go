package clienttool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// Choose returns the tools that the model may call, and the instructions for the model that stand for settings which
// codex does not have. at is the path of the choice; single means that the client accepts one call in an answer.
func (c Choice) Choose(at string, tools []Tool,
	single bool) (offered []Tool, instructions []string, err error) {
	if err := CheckList("tools", tools); err != nil {
		return nil, nil, err
	}
	if offered, err = c.Apply(at, tools); err != nil {
		return nil, nil, err
	}
	return offered, c.Instructions(offered, single), nil
}

// Instructions replace settings that codex does not have.
func (c Choice) Instructions(offered []Tool, single bool) []string {
	var list []string
	if text := c.instruction(); text != "" {
		list = append(list, text)
	}
	if single && len(offered) > 1 {
		list = append(list, oneCall)
	}
	return list
}

// Choice lists the tools that the model may or must call. Codex always sends "auto": tools that may not be called
// are not offered, and an instruction asks for a call that must be made.
type Choice struct {
	Must  bool   // the model must call a tool
	Names []Name // of the tools that it may call; nil means all
}

// ReadChoice decodes tool_choice. named returns the name in {"type":"function",…} and {"type":"custom",…}, which
// differ between the two APIs; group does so for {"type":"allowed_tools",…}.
func ReadChoice(raw json.RawMessage, named func(json.RawMessage) Name,
	group func(json.RawMessage) Allowed) (Choice, error) {
	if jsonbody.IsUnset(raw) && string(raw) != `"none"` {
		return Choice{}, nil
	}
	var word string
	if jsonbody.Unmarshal(raw, &word) == nil {
		return ChoiceByWord("tool_choice", word)
	}
	var head struct {
		Type string `json:"type"`
	}
	if jsonbody.Unmarshal(raw, &head) != nil {
		return Choice{}, openai.Invalid("invalid_type", "tool_choice", "tool_choice must be a string or an object")
	}
	switch head.Type {
	case "function", "custom":
		return Choice{Must: true, Names: []Name{named(raw)}}, nil
	case "allowed_tools":
		return choiceOf(group(raw), named)
	default:
		return Choice{}, openai.Unsupported("tool_choice.type",
			fmt.Sprintf("tool_choice.type must be function, custom or allowed_tools; %q is not supported",
				openai.Clip(head.Type)))
	}
}

// ChoiceByWord is the choice that a word names; at is the path of the word.
func ChoiceByWord(at, word string) (Choice, error) {
	switch word {
	case "auto":
		return Choice{}, nil
	case "none":
		return Choice{Names: []Name{}}, nil
	case "required":
		return Choice{Must: true}, nil
	}
	return Choice{}, openai.Invalid("invalid_value", at, at+" must be none, auto or required, or name a function")
}

// Allowed is the body of {"type":"allowed_tools",…}.
type Allowed struct {
	Mode  string                         `json:"mode"`
	Tools jsonbody.List[json.RawMessage] `json:"tools"`
}

func choiceOf(allowed Allowed, named func(json.RawMessage) Name) (Choice, error) {
	if allowed.Mode != "auto" && allowed.Mode != "required" {
		return Choice{}, openai.Invalid("invalid_value", "tool_choice.mode",
			"the mode of allowed_tools must be auto or required")
	}
	if len(allowed.Tools) > maxTools {
		return Choice{}, openai.Invalid("invalid_value", "tool_choice.tools",
			fmt.Sprintf("allowed_tools must not hold more than %d tools", maxTools))
	}
	choice := Choice{Must: allowed.Mode == "required", Names: []Name{}}
	for _, tool := range allowed.Tools {
		choice.Names = append(choice.Names, named(tool))
	}
	return choice, nil
}

// Apply returns the tools that the model may call.
func (c Choice) Apply(at string, tools []Tool) ([]Tool, error) {
	chosen := map[string]bool{}
	for _, name := range c.Names {
		chosen[name.wire()] = true
		if !slices.ContainsFunc(tools, func(t Tool) bool { return t.Wire.Name == name.wire() }) {
			return nil, openai.Invalid("invalid_value", at,
				fmt.Sprintf("%s names the function %q, which is not among the tools", at, openai.Clip(name.Name)))
		}
	}
	if c.Must && len(tools) == 0 {
		return nil, openai.Invalid("invalid_value", at, at+" asks for a call, and there are no tools")
	}
	if c.Names == nil {
		return tools, nil
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return !chosen[t.Wire.Name] }), nil
}

// instruction asks the model in words for a call, which codex cannot enforce. The model knows the tools by their wire
// names.
func (c Choice) instruction() string {
	var names []string
	for _, name := range c.Names {
		names = append(names, name.wire())
	}
	switch {
	case !c.Must:
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
