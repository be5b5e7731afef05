package clienttool

import (
	"encoding/json"
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// Tool is one tool that the client runs itself.
type Tool struct {
	Name, Namespace string
	Custom          bool     // its input is free text
	Search          bool     // it finds further tools
	Wire            Function // the form for codex and the model

	At string // its path in the request
}

// Call is the model's call of the tool, as the client knows it. arguments are as the model wrote them.
func (t Tool) Call(id, arguments string) Call {
	if t.Custom {
		arguments = CustomInput(arguments)
	}
	return Call{ID: id, Name: t.Name, Arguments: arguments, Custom: t.Custom}
}

// CheckList refuses too long lists and duplicate names.
func CheckList(at string, tools []Tool) error {
	if len(tools) > maxTools {
		return openai.Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d tools", at, maxTools))
	}
	first := map[string]Tool{}
	for _, t := range tools {
		if earlier, ok := first[t.Wire.Name]; ok {
			at := t.At + ".name"
			return openai.Invalid("invalid_value", at,
				fmt.Sprintf("%s: %q is the name of %s, too; names must be different",
					at,
					openai.Clip(t.Name), earlier.At))
		}
		first[t.Wire.Name] = t
	}
	return nil
}

// New is a function of a client. at is the path of the tool, schemaAt the path of its parameters' schema.
func New(at, schemaAt, name, description string, schema json.RawMessage) (Tool, error) {
	if err := jsonbody.CheckName(at+".name", name); err != nil {
		return Tool{}, err
	}
	wire, err := NewFunction(schemaAt, WireName("", name), description, schema)
	return Tool{Name: name, Wire: wire, At: at}, err
}
