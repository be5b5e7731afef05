package tokens

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// typeWriter writes JSON schemas as types of TypeScript.
type typeWriter struct{ text strings.Builder }

func sorted(members map[string]any) []string { return slices.Sorted(maps.Keys(members)) }

func (w *typeWriter) comment(indent, text string) {
	for line := range strings.Lines(text) {
		w.text.WriteString(indent + "// " + strings.TrimSuffix(line, "\n") + "\n")
	}
}

// commented is how many bytes a text has as a comment.
func commented(text string) int { return len(text) + perLine*(strings.Count(text, "\n")+1) }

// deepest is the longest indentation.
const deepest = "        "

// object writes an object with its properties.
func (w *typeWriter) object(schema, properties map[string]any, indent string) {
	required := namesIn(schema["required"])
	w.text.WriteString("{\n")
	for _, name := range sorted(properties) {
		property, _ := properties[name].(map[string]any)
		if words, ok := property["description"].(string); ok {
			w.comment(indent, words)
		}
		w.text.WriteString(indent + name)
		if !required[name] {
			w.text.WriteByte('?')
		}
		w.text.WriteString(": ")
		w.write(properties[name], indent)
		w.text.WriteString(",\n")
	}
	w.text.WriteString(indent + "}")
}

// namesIn are the texts in a list.
func namesIn(list any) map[string]bool {
	names := map[string]bool{}
	values, _ := list.([]any)
	for _, value := range values {
		if name, ok := value.(string); ok {
			names[name] = true
		}
	}
	return names
}

// write writes a type; a schema that is true or false is any.
func (w *typeWriter) write(of any, indent string) {
	schema, _ := of.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	values, _ := schema["enum"].([]any)
	anyOf, _ := schema["anyOf"].([]any)
	oneOf, _ := schema["oneOf"].([]any)
	ref, _ := schema["$ref"].(string)
	switch {
	case len(values) > 0:
		w.list(values, w.value)
	case schema["const"] != nil:
		w.value(schema["const"])
	case ref != "":
		w.text.WriteString(ref[strings.LastIndexByte(ref, '/')+1:])
	case len(properties) > 0:
		w.object(schema, properties, indent+deepest[:min(2, len(deepest)-len(indent))])
	case len(anyOf)+len(oneOf) > 0:
		w.list(append(anyOf, oneOf...), func(one any) { w.write(one, indent) })
	case schema["items"] != nil:
		w.write(schema["items"], indent)
		w.text.WriteString("[]")
	default:
		w.named(schema["type"])
	}
}

// list writes alternatives.
func (w *typeWriter) list(list []any, write func(any)) {
	for i, one := range list {
		if i > 0 {
			w.text.WriteString(" | ")
		}
		write(one)
	}
}

// value writes a value of an enum.
func (w *typeWriter) value(value any) {
	text, err := json.Marshal(value)
	if err != nil { // a decoded value always encodes
		panic(err)
	}
	w.text.Write(text)
}

// named writes the type of that name, or of several names.
func (w *typeWriter) named(of any) {
	switch of := of.(type) {
	case string:
		if of == "integer" {
			of = "number"
		}
		w.text.WriteString(of)
	case []any:
		w.list(of, w.named)
	default:
		w.text.WriteString("any")
	}
}
