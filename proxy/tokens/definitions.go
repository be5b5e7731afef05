package tokens

import (
	"context"

	jsonv2 "github.com/go-json-experiment/json"

	"codex-proxy/codex/appserver"
)

// definitions adds the tools and the schema of the answer, in the form in which a model reads them.
func (s *sum) definitions(ctx context.Context, turn *appserver.TurnRequest) error {
	if len(turn.OutputSchema) > 0 {
		s.message(ctx, "developer", "# Response Formats\n\n## response\n\n", string(turn.OutputSchema))
	}
	if len(turn.Tools) == 0 {
		return nil
	}
	s.tokens += perTools
	s.text(ctx, "namespace functions {\n\n")
	for _, t := range turn.Tools {
		text, err := function(t)
		if err != nil {
			return err
		}
		s.text(ctx, text)
	}
	s.text(ctx, "} // namespace functions")
	return nil
}

// function is a tool as a type of TypeScript.
func function(t appserver.Tool) (string, error) {
	var parameters map[string]any
	if len(t.InputSchema) > 0 {
		if err := jsonv2.Unmarshal(t.InputSchema, &parameters); err != nil {
			return "", err
		}
	}
	var w typeWriter
	w.text.Grow(commented(t.Description) + len(t.InputSchema))
	w.comment("", t.Description)
	w.text.WriteString("type " + t.Name + " = (")
	if properties, ok := parameters["properties"].(map[string]any); ok && len(properties) > 0 {
		w.text.WriteString("_: ")
		w.object(parameters, properties, "")
	}
	w.text.WriteString(") => any;\n\n")
	for _, of := range []string{"$defs", "definitions"} {
		definitions, _ := parameters[of].(map[string]any)
		for _, name := range sorted(definitions) {
			w.text.WriteString("type " + name + " = ")
			w.write(definitions[name], "")
			w.text.WriteString(";\n\n")
		}
	}
	return w.text.String(), nil
}
