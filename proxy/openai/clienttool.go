package openai

import (
	"encoding/json"
	"fmt"
)

// ClientTool is one tool that the client runs itself.
type ClientTool struct {
	Name, Namespace string
	Custom          bool // its input is free text
	Search          bool // it finds further tools
	Wire            Tool // the form for codex and the model

	at string // its path in the request
}

// Call is the model's call of the tool, as the client knows it. arguments are as the model wrote them.
func (t ClientTool) Call(id, arguments string) ToolCall {
	if t.Custom {
		arguments = customInput(arguments)
	}
	return ToolCall{ID: id, Name: t.Name, Arguments: arguments, Custom: t.Custom}
}

// toolFormat is the format of a custom tool's input.
type toolFormat struct {
	Type       string `json:"type"` // text or grammar
	Syntax     string `json:"syntax"`
	Definition string `json:"definition"`
}

// schema makes a custom tool a function of one string, for the model.
func (f toolFormat) schema() json.RawMessage {
	description := "the input of the tool: free text, not JSON"
	if f.Type == "grammar" {
		description = fmt.Sprintf("the input of the tool: text, not JSON, that follows this %s grammar:\n%s", f.Syntax,
			f.Definition)
	}
	schema, err := Encode(map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"input"},
		"properties": map[string]any{"input": map[string]string{"type": "string", "description": description}},
	})
	if err != nil { // strings always encode
		panic(err)
	}
	return schema
}

// customInput is the input of a custom tool, which is a function of one string to the model. Arguments in any other
// form are the input themselves.
func customInput(arguments string) string {
	var a struct {
		Input *string `json:"input"`
	}
	if unmarshal([]byte(arguments), &a) != nil || a.Input == nil {
		return arguments
	}
	return *a.Input
}

// CustomArguments are the arguments of the function that a custom tool is to the model; see customInput.
func CustomArguments(input string) string {
	arguments, err := Encode(map[string]string{"input": input})
	if err != nil { // strings always encode
		panic(err)
	}
	return string(arguments)
}

// ToolCall is the model's call of a tool, as the client knows it.
type ToolCall struct {
	ID, Name  string
	Arguments string // as the model wrote them; possibly invalid JSON. Of a custom tool: its input
	Custom    bool
}

// Wire is the name and the arguments of the call for codex and the model.
func (c ToolCall) Wire() (name, arguments string) {
	if c.Custom {
		return WireName("", c.Name), CustomArguments(c.Arguments)
	}
	return WireName("", c.Name), c.Arguments
}

// checkTools refuses too long lists and duplicate names.
func checkTools(at string, tools []ClientTool) error {
	if len(tools) > maxTools {
		return Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d tools", at, maxTools))
	}
	first := map[string]ClientTool{}
	for _, t := range tools {
		if earlier, ok := first[t.Wire.Name]; ok {
			at := t.at + ".name"
			return Invalid("invalid_value", at, fmt.Sprintf("%s: %q is the name of %s, too; names must be different",
				at,
				clip(t.Name), earlier.at))
		}
		first[t.Wire.Name] = t
	}
	return nil
}
