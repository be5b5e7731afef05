package clienttool

import (
	"encoding/json"
	"strings"

	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/jsonschema"
)

// maxTools bounds the tools of a request. Measured: codex 0.169 takes 300 tools.
const maxTools = 512

// Function is a function of the client that the model may call, in the form for codex.
type Function struct {
	Name string `json:"name"` // see WireName
	// Description is the client's, followed by the schema if codex would not pass that on whole.
	Description string `json:"description"`
	// Parameters is a JSON schema of type object.
	Parameters json.RawMessage `json:"parameters"`
}

// noParameters is the schema of a function without parameters.
var noParameters = json.RawMessage(`{"type":"object","properties":{}}`)

// NewFunction is the tool of that name for codex and the model. It refuses parameters that codex would refuse or
// silently drop. at is the path of the parameters.
func NewFunction(at, name, description string, parameters json.RawMessage) (Function, error) {
	if jsonbody.IsUnset(parameters) {
		return Function{name, description, noParameters}, nil
	}
	whole, err := jsonschema.CheckParameters(at, parameters)
	if err != nil {
		return Function{}, err
	}
	if !whole {
		description = strings.TrimLeft(description+"\n\nJSON schema of the parameters: "+string(jsonschema.Compact(parameters)),
			"\n")
	}
	return Function{name, description, parameters}, nil
}
