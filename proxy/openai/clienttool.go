package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ClientTool is one tool that the client runs itself.
type ClientTool struct {
	Name, Namespace string
	Custom          bool // its input is free text
	Search          bool // it finds further tools
	Wire            Tool // as codex and the model know it

	at string // where it stands in the request
}

// ClientTools are the tools of a request.
type ClientTools struct {
	Offered []ClientTool      // those that the model may call
	Shown   []json.RawMessage // as the client sent them
	Choice  json.RawMessage   // tool_choice, as it is shown
	Single  bool              // the client takes one call in an answer
	Words   []string          // what has to be asked of the model
}

// SearchTool is the name by which the model knows a client's tool_search, which
// has none.
const SearchTool = "tool_search"

// hiddenNames are names that codex 0.169 takes for its own: a tool of the
// client's with such a name never reaches the model.
var hiddenNames = []string{"exec_command", "shell_command"}

// WireName is the name by which codex and the model know a tool. Codex has no
// namespaces here, and keeps some names to itself.
func WireName(namespace, name string) string {
	switch {
	case namespace != "":
		name = namespace + "__" + name
	case !slices.Contains(hiddenNames, name):
		return name
	default:
		name = "client_" + name
	}
	if len(name) <= maxToolName && !strings.HasPrefix(name, "mcp__") {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "t_" + hex.EncodeToString(sum[:6]) + "_" + name[max(0, len(name)-64):]
}

func (t ClientTools) byWireName() map[string]ClientTool {
	m := make(map[string]ClientTool, len(t.Offered))
	for _, tool := range t.Offered {
		m[tool.Wire.Name] = tool
	}
	return m
}

// rawClientTool is a tool as it arrives.
type rawClientTool struct {
	Type        string                `json:"type"`
	Name        string                `json:"name"`
	Description string                `json:"description"`
	Parameters  json.RawMessage       `json:"parameters"`
	Strict      bool                  `json:"strict"`
	Tools       some[json.RawMessage] `json:"tools"` // of a namespace
	Format      toolFormat            `json:"format"`
	WebAccess   *bool                 `json:"external_web_access"`
	Execution   string                `json:"execution"` // of a tool_search
}

// toolFormat is the format of a custom tool's input.
type toolFormat struct {
	Type       string `json:"type"` // text or grammar
	Syntax     string `json:"syntax"`
	Definition string `json:"definition"`
}

// takeTools applies tools, tool_choice and parallel_tool_calls, and the tools
// that come as items of the input.
func (raw rawResponse) takeTools(req *ResponseRequest) error {
	req.rawTools, req.rawChoice = raw.Tools, raw.ToolChoice
	req.Tools.Single = raw.ParallelToolCalls != nil && !*raw.ParallelToolCalls
	ignored, err := req.equip(nil)
	req.Ignored = append(req.Ignored, ignored...)
	return err
}

// Equip offers the model the tools of an earlier part of the conversation, too.
// They have been checked before; of two by the same name the later one holds.
func (req *ResponseRequest) Equip(earlier []json.RawMessage) error {
	_, err := req.equip(earlier)
	return err
}

func (req *ResponseRequest) equip(earlier []json.RawMessage) (ignored []string, err error) {
	t := ClientTools{Single: req.Tools.Single, Shown: append([]json.RawMessage{}, req.rawTools...), Choice: json.RawMessage(`"auto"`)}
	if !isNothing(req.rawChoice) || string(req.rawChoice) == `"none"` {
		t.Choice = req.rawChoice
	}
	var own toolReader
	if err := own.list(req.rawTools, "tools", ""); err != nil {
		return nil, err
	}
	if err := checkTools("tools", wires(own.tools), func(i int) string { return own.tools[i].at + ".name" }); err != nil {
		return nil, err
	}
	var before, after toolReader
	if err := before.list(earlier, "previous_response_id", ""); err != nil {
		return nil, err
	}
	for _, in := range req.Input {
		if err := after.list(in.Tools, in.At+".tools", ""); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	for _, tool := range slices.Backward(slices.Concat(before.tools, own.tools, after.tools)) {
		if !seen[tool.Wire.Name] {
			seen[tool.Wire.Name] = true
			t.Offered = append(t.Offered, tool)
		}
	}
	slices.Reverse(t.Offered)
	err = t.choose(req.rawChoice)
	req.Tools = t
	return slices.Compact(append(own.ignored, after.ignored...)), err
}

// choose applies tool_choice.
func (t *ClientTools) choose(raw json.RawMessage) error {
	wire := wires(t.Offered)
	if err := checkTools("tools", wire, func(i int) string { return t.Offered[i].at + ".name" }); err != nil {
		return err
	}
	choice, err := chooseTools(asFunction(raw), chosenTool, chosenTools)
	if err != nil {
		return err
	}
	if wire, err = choice.offer("tool_choice", wire); err != nil {
		return err
	}
	t.Offered = slices.DeleteFunc(t.Offered, func(c ClientTool) bool {
		return !slices.ContainsFunc(wire, func(w Tool) bool { return w.Name == c.Wire.Name })
	})
	if text := choice.instruction(); text != "" {
		t.Words = append(t.Words, text)
	}
	if t.Single && len(t.Offered) > 1 {
		t.Words = append(t.Words, oneCall)
	}
	return nil
}

func wires(tools []ClientTool) []Tool {
	list := make([]Tool, 0, len(tools))
	for _, tool := range tools {
		list = append(list, tool.Wire)
	}
	return list
}

// toolReader reads tools as they arrive.
type toolReader struct {
	tools   []ClientTool
	ignored []string // where those are that have no effect
	read    int
}

func (r *toolReader) list(list []json.RawMessage, at, namespace string) error {
	if r.read += len(list); r.read > maxList { // of the same name there may be many, in the items of a conversation
		return Invalid("invalid_value", at, fmt.Sprintf("%s: there must not be more than %d tools, repeated ones included", at, maxList))
	}
	for i, data := range list {
		if err := r.take(data, fmt.Sprintf("%s[%d]", at, i), namespace); err != nil {
			return err
		}
	}
	return nil
}

func (r *toolReader) take(data json.RawMessage, at, namespace string) (err error) {
	var raw rawClientTool
	if !isObject(data) || unmarshal(data, &raw) != nil {
		return Invalid("invalid_type", at, at+" must be a tool")
	}
	switch {
	case raw.Type == "namespace" && namespace == "":
		if err := checkToolName(at+".name", raw.Name); err != nil {
			return err
		}
		return r.list(raw.Tools, at+".tools", raw.Name)
	case raw.Type == "web_search" && raw.WebAccess != nil && !*raw.WebAccess:
		// The codex CLI puts this one, which may not go to the web, into every request.
		r.ignored = append(r.ignored, at)
		return nil
	case raw.Type == "tool_search" && raw.Execution == "client":
		raw.Name = SearchTool
	case raw.Type != "function" && raw.Type != "custom":
		return unsupported(at+".type", fmt.Sprintf("%s: tools of type %q are not served; offer functions, custom tools or namespaces of them", at, clip(raw.Type)))
	}
	if err := checkToolName(at+".name", raw.Name); err != nil {
		return err
	}
	tool := ClientTool{Name: raw.Name, Namespace: namespace, Custom: raw.Type == "custom", Search: raw.Type == "tool_search", at: at}
	if tool.Custom {
		raw.Parameters = raw.Format.schema()
	}
	if raw.Strict && !slices.Contains(r.ignored, "tools.strict") {
		r.ignored = append(r.ignored, "tools.strict")
	}
	tool.Wire, err = newTool(at, WireName(namespace, raw.Name), raw.Description, raw.Parameters)
	r.tools = append(r.tools, tool)
	return err
}

// schema shows the model a custom tool as a function of one string.
func (f toolFormat) schema() json.RawMessage {
	says := "the input of the tool: free text, not JSON"
	if f.Type == "grammar" {
		says = fmt.Sprintf("the input of the tool: text, not JSON, that follows this %s grammar:\n%s", f.Syntax, f.Definition)
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"input"},
		"properties": map[string]any{"input": map[string]string{"type": "string", "description": says}},
	})
	if err != nil { // strings always encode
		panic(err)
	}
	return schema
}

// asFunction lets a custom tool be chosen like a function.
func asFunction(choice json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(choice, &fields) != nil || string(fields["type"]) != `"custom"` {
		return choice
	}
	fields["type"] = json.RawMessage(`"function"`)
	function, err := json.Marshal(fields)
	if err != nil { // it was read from JSON
		panic(err)
	}
	return function
}

func chosenTool(raw json.RawMessage) string {
	var choice struct{ Namespace, Name string }
	_ = json.Unmarshal(raw, &choice) // without a name it names no tool
	return WireName(choice.Namespace, choice.Name)
}

func chosenTools(raw json.RawMessage) (choice allowedTools) {
	_ = json.Unmarshal(raw, &choice) // without a mode it is refused
	return choice
}
