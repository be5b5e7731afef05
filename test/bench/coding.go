package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// coding is the request of a coding agent late in its day: 500 KB in 200
// messages, with 30 tools. Each begins differently, so that none continues another.
func coding() func(int) []byte {
	const mark = "NUMBER-OF-THE-REQUEST"
	source := strings.Repeat("\tif err := f(ctx, \"name\"); err != nil {\n\t\treturn fmt.Errorf(\"cannot do: %w\", err)\n\t}\n", 26)
	messages := []any{map[string]any{"role": "system", "content": mark + " You write code.\n" + source}}
	for i := 0; len(messages) < 199; i++ {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": "tool_1", "arguments": `{"path":"` + strings.Repeat("a/b.go ", 300) + `"}`},
			}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": source})
	}
	messages = append(messages, map[string]any{"role": "user", "content": askAnswer})
	b, err := json.Marshal(map[string]any{"model": "demo", "messages": messages, "tools": codingTools()})
	if err != nil {
		panic(err)
	}
	return func(i int) []byte { return bytes.Replace(b, []byte(mark), fmt.Appendf(nil, "%d", i), 1) }
}

func codingTools() (tools []any) {
	for i := range 30 {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
			"name": fmt.Sprintf("tool_%d", i), "description": strings.Repeat("Reads a file of the project. ", 8),
			"parameters": map[string]any{
				"type": "object", "required": []string{"path"}, "additionalProperties": false,
				"properties": map[string]any{
					"path":  map[string]any{"type": "string", "description": "Where the file is, from the root of the project."},
					"lines": map[string]any{"type": "array", "items": map[string]any{"type": "integer"}},
				},
			},
		}})
	}
	return tools
}
