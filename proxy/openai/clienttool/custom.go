package clienttool

import (
	"encoding/json"
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// InputFormat is the format of a custom tool's input.
type InputFormat struct {
	Type       string `json:"type"` // text or grammar
	Syntax     string `json:"syntax"`
	Definition string `json:"definition"`
}

// Schema makes a custom tool a function of one string, for the model.
func (f InputFormat) Schema() json.RawMessage {
	description := "the input of the tool: free text, not JSON"
	if f.Type == "grammar" {
		description = fmt.Sprintf("the input of the tool: text, not JSON, that follows this %s grammar:\n%s", f.Syntax,
			f.Definition)
	}
	schema, err := openai.Encode(map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"input"},
		"properties": map[string]any{"input": map[string]string{"type": "string", "description": description}},
	})
	if err != nil { // strings always encode
		panic(err)
	}
	return schema
}

// CustomInput is the input of a custom tool, which is a function of one string to the model. Arguments in any other
// form are the input themselves.
func CustomInput(arguments string) string {
	var a struct {
		Input *string `json:"input"`
	}
	if jsonbody.Unmarshal([]byte(arguments), &a) != nil || a.Input == nil {
		return arguments
	}
	return *a.Input
}

// CustomArguments are the arguments of the function that a custom tool is to the model; see CustomInput.
func CustomArguments(input string) string {
	arguments, err := openai.Encode(map[string]string{"input": input})
	if err != nil { // strings always encode
		panic(err)
	}
	return string(arguments)
}
