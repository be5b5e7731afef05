package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// ClientTool is one tool that the client runs itself.
type ClientTool struct {
	Name, Namespace string
	Description     string
	Schema          json.RawMessage // of the arguments
	Custom          bool            // its input is free text
}

// ClientTools are the tools of a request.
type ClientTools struct {
	Offered []ClientTool      // those that the model may call
	Shown   []json.RawMessage // as the client sent them
}

// WireName is the name by which the worker knows a tool: codex has no namespaces
// here, keeps names that begin with mcp__ for itself, and the model endpoint
// takes 64 characters.
func WireName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	wire := namespace + "__" + name
	if len(wire) <= maxToolName && !strings.HasPrefix(wire, reservedPrefix) {
		return wire
	}
	sum := sha256.Sum256([]byte(wire))
	return "t_" + clipTo(name, 40) + "_" + hex.EncodeToString(sum[:6])
}

const (
	maxToolName    = 64
	reservedPrefix = "mcp__"
	maxTools       = 1024
)

func clipTo(s string, n int) string { return s[:min(n, len(s))] }

func (t ClientTool) wireName() string { return WireName(t.Namespace, t.Name) }

func (t ClientTools) byWireName() map[string]ClientTool {
	m := make(map[string]ClientTool, len(t.Offered))
	for _, tool := range t.Offered {
		m[tool.wireName()] = tool
	}
	return m
}

type rawTool struct {
	Type        string            `json:"type"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Parameters  json.RawMessage   `json:"parameters"`
	Tools       []json.RawMessage `json:"tools"` // of a namespace
	Format      toolFormat        `json:"format"`
	WebAccess   *bool             `json:"external_web_access"`
}

// toolFormat is the format of a custom tool's input.
type toolFormat struct {
	Type       string `json:"type"` // text or grammar
	Syntax     string `json:"syntax"`
	Definition string `json:"definition"`
}

// takeTools applies tools and tool_choice. codex has no tool_choice: without
// tools there is nothing to choose, and otherwise the model decides.
func (raw rawResponse) takeTools(req *ResponseRequest) error {
	req.Tools.Shown = []json.RawMessage{}
	if err := req.takeToolList(raw.Tools, "tools", ""); err != nil {
		return err
	}
	req.Tools.Shown = append(req.Tools.Shown, raw.Tools...)
	if err := req.Tools.distinct(); err != nil {
		return err
	}
	req.ToolChoice = json.RawMessage(`"auto"`)
	switch strings.TrimSpace(string(raw.ToolChoice)) {
	case "", "null", `"auto"`:
	case `"none"`:
		req.ToolChoice, req.Tools.Offered = raw.ToolChoice, nil
	default:
		return unsupported("tool_choice", "tool_choice must be auto or none: codex leaves the choice to the model")
	}
	return nil
}

func (req *ResponseRequest) takeToolList(list []json.RawMessage, at, namespace string) error {
	if len(req.Tools.Offered)+len(list) > maxTools {
		return Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d tools", at, maxTools))
	}
	for i, data := range list {
		if err := req.takeTool(data, fmt.Sprintf("%s[%d]", at, i), namespace); err != nil {
			return err
		}
	}
	return nil
}

func (req *ResponseRequest) takeTool(data json.RawMessage, at, namespace string) error {
	var raw rawTool
	if json.Unmarshal(data, &raw) != nil || !isObject(data) {
		return Invalid("invalid_type", at, at+" must be a tool")
	}
	tool := ClientTool{Name: raw.Name, Namespace: namespace, Description: raw.Description, Schema: raw.Parameters}
	switch {
	case raw.Type == "namespace" && namespace == "":
		if err := checkToolName(raw.Name, at); err != nil {
			return err
		}
		return req.takeToolList(raw.Tools, at+".tools", raw.Name)
	case raw.Type == "function":
		if isNothing(tool.Schema) {
			tool.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if !isObject(tool.Schema) {
			return Invalid("invalid_value", at+".parameters", at+".parameters must be a JSON schema")
		}
	case raw.Type == "custom":
		tool.Custom, tool.Schema = true, raw.Format.schema()
	case raw.Type == "web_search" && raw.WebAccess != nil && !*raw.WebAccess:
		// The codex CLI puts this one into every request. It may not go to the web.
		req.Ignored = append(req.Ignored, at)
		return nil
	default:
		return unsupported(at+".type", fmt.Sprintf("%s: tools of type %q are not served; offer functions or custom tools", at, clip(raw.Type)))
	}
	if err := checkToolName(raw.Name, at); err != nil {
		return err
	}
	if namespace == "" && strings.HasPrefix(raw.Name, reservedPrefix) {
		return Invalid("invalid_value", at+".name", at+".name must not begin with "+reservedPrefix+", which codex keeps for itself")
	}
	req.Tools.Offered = append(req.Tools.Offered, tool)
	return nil
}

func checkToolName(name, at string) error {
	bad := func(c rune) bool {
		return c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}
	if name == "" || len(name) > maxToolName || strings.ContainsFunc(name, bad) {
		return Invalid("invalid_value", at+".name", fmt.Sprintf("%s.name must be 1 to %d characters of A-Z, a-z, 0-9, _ and -", at, maxToolName))
	}
	return nil
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

func (t ClientTools) distinct() error {
	seen := make(map[string]bool, len(t.Offered))
	for _, tool := range t.Offered {
		if seen[tool.wireName()] {
			return Invalid("invalid_value", "tools", fmt.Sprintf("tools has %q twice", clip(tool.Name)))
		}
		seen[tool.wireName()] = true
	}
	return nil
}
