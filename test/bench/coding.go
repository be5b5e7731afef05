package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const codingMark = "NUMBER-OF-THE-REQUEST"

var (
	codingSource = strings.Repeat("\tif err := f(ctx, \"name\"); err != nil {\n"+
		"\t\treturn fmt.Errorf(\"cannot do: %w\", err)\n\t}\n", 26)
	codingArguments = `{"path":"` + strings.Repeat("a/b.go ", 300) + `"}`
)

// coding is the request of a coding agent late in its day: 500 KB in 200
// messages, with 30 tools. Each begins differently, so that none continues another.
func coding() func(int) []byte {
	messages := []any{map[string]any{"role": "system", "content": codingMark + " You write code.\n" + codingSource}}
	for i := 0; len(messages) < 199; i++ {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": "tool_1",
					"arguments": codingArguments},
			}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": codingSource})
	}
	messages = append(messages, map[string]any{"role": "user", "content": askAnswer})
	var tools []any
	for _, t := range codingTools() {
		tools = append(tools, map[string]any{"type": "function", "function": t})
	}
	return numbered(map[string]any{"model": "demo", "messages": messages, "tools": tools})
}

// codingResponse is the same for /v1/responses.
func codingResponse(store bool) func(int) []byte {
	input := []any{map[string]any{"role": "system", "content": codingMark + " You write code.\n" + codingSource}}
	for i := 0; len(input) < 199; i++ {
		id := fmt.Sprintf("call_%d", i)
		input = append(input,
			map[string]any{"type": "function_call", "call_id": id, "name": "tool_1", "arguments": codingArguments},
			map[string]any{"type": "function_call_output", "call_id": id, "output": codingSource})
	}
	input = append(input, map[string]any{"role": "user", "content": askAnswer})
	var tools []any
	for _, t := range codingTools() {
		t["type"] = "function"
		tools = append(tools, t)
	}
	return numbered(map[string]any{"model": "demo", "store": store, "input": input, "tools": tools})
}

// long is a request of so many bytes.
func long(size int) func(int) []byte {
	return numbered(map[string]any{"model": "demo", "messages": []any{
		map[string]any{"role": "user", "content": codingMark + strings.Repeat(" word", size/5)},
		map[string]any{"role": "user", "content": askAnswer},
	}})
}

func numbered(request map[string]any) func(int) []byte {
	b, err := json.Marshal(request)
	if err != nil {
		panic(err)
	}
	return func(i int) []byte { return bytes.Replace(b, []byte(codingMark), fmt.Appendf(nil, "%d", i), 1) }
}

func codingTools() (tools []map[string]any) {
	for i := range 30 {
		tools = append(tools, map[string]any{
			"name": fmt.Sprintf("tool_%d", i), "description": strings.Repeat("Reads a file of the project. ", 8),
			"parameters": map[string]any{
				"type": "object", "required": []string{"path"}, "additionalProperties": false,
				"properties": map[string]any{
					"path": map[string]any{"type": "string", "description": "Where the file is, from the root of " +
						"the project."},
					"lines": map[string]any{"type": "array", "items": map[string]any{"type": "integer"}},
				},
			},
		})
	}
	return tools
}
