package mcpserver

import (
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// words are a program and its arguments. A text in their place is a line for sh(1), as agents often write commands.
type words []string

// UnmarshalJSON takes both forms.
func (w *words) UnmarshalJSON(data []byte) error {
	var line string
	if json.Unmarshal(data, &line) == nil {
		if *w = nil; line != "" {
			*w = words{"sh", "-c", line}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(w))
}

// schema describes the parameters of the tool run.
func schema() *jsonschema.Schema {
	s, err := jsonschema.For[runInput](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[words](): {Types: []string{"array", "string"}, Items: &jsonschema.Schema{Type: "string"}},
	}})
	if err != nil {
		panic(err) // a mistake in the tags of runInput, which every test meets
	}
	return s
}
