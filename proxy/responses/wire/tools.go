package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
)

// Tools are the tools of a request.
type Tools struct {
	Offered []clienttool.Tool // the tools that the model may call
	Echoed  []json.RawMessage // of the parameter, for the response; see echoedTools
	Choice  json.RawMessage   // tool_choice, for the response
	Single  bool              // the client accepts one call in an answer
	// Instructions replace settings that codex does not have.
	Instructions []string
}

// SearchTool is the name for the model of a client's tool_search, which has no name.
const SearchTool = "tool_search"

// ByWireName has the offered tools by the name that the worker knows.
func (t Tools) ByWireName() map[string]clienttool.Tool {
	m := make(map[string]clienttool.Tool, len(t.Offered))
	for _, tool := range t.Offered {
		m[tool.Wire.Name] = tool
	}
	return m
}

// FoundTools are the tools of a tool_search_output, which has been checked, in the form for the model.
func FoundTools(tools []json.RawMessage) []clienttool.Function {
	var found toolReader
	_ = found.addAll(tools, "tools", "") // it has succeeded before
	list := make([]clienttool.Function, 0, len(found.tools))
	for _, tool := range found.tools {
		list = append(list, tool.Wire)
	}
	return list
}

// rawClientTool is a tool in a request.
type rawClientTool struct {
	Type        string                         `json:"type"`
	Name        string                         `json:"name"`
	Description string                         `json:"description"`
	Parameters  json.RawMessage                `json:"parameters"`
	Strict      bool                           `json:"strict"`
	Tools       jsonbody.List[json.RawMessage] `json:"tools"` // of a namespace
	Format      clienttool.InputFormat         `json:"format"`
	WebAccess   *bool                          `json:"external_web_access"`
	Execution   string                         `json:"execution"` // of a tool_search
}

// applyTools applies tools, tool_choice and parallel_tool_calls, and the tools in items of the input.
func (raw rawResponse) applyTools(req *Request) error {
	t := &req.Tools
	t.Single, t.Choice = raw.ParallelToolCalls != nil && !*raw.ParallelToolCalls, json.RawMessage(`"auto"`)
	if !jsonbody.IsUnset(raw.ToolChoice) || string(raw.ToolChoice) == `"none"` {
		t.Choice = raw.ToolChoice
	}
	if err := req.paramTools.addAll(raw.Tools, "tools", ""); err != nil {
		return err
	}
	if err := clienttool.CheckList("tools", req.paramTools.tools); err != nil {
		return err
	}
	t.Echoed = echoedTools(raw.Tools)
	for _, in := range req.Input {
		if err := req.itemTools.addAll(in.Tools, in.At+".tools", ""); err != nil {
			return err
		}
	}
	req.Ignored = append(append(req.Ignored, req.paramTools.ignored...), req.itemTools.ignored...)
	var err error
	if req.choice, err = clienttool.ReadChoice(raw.ToolChoice, chosenTool, chosenTools); err != nil ||
		req.mayHaveEarlierTools() {
		return err
	}
	return req.applyChoice(nil)
}

// mayHaveEarlierTools reports whether an earlier part of the conversation may have further tools.
func (req *Request) mayHaveEarlierTools() bool {
	return req.Previous != "" || slices.ContainsFunc(req.Input, func(in InputItem) bool { return in.Reference != "" })
}

// AddTools also offers the model the tools of an earlier part of the conversation, which have been checked before. Of
// two tools with the same name the later one counts. A request that refers to earlier items has no tools until
// AddTools, because tool_choice may name any of them.
func (req *Request) AddTools(earlier []json.RawMessage) error {
	if earlier == nil && !req.mayHaveEarlierTools() {
		return nil
	}
	var before toolReader
	if err := before.addAll(earlier, "previous_response_id", ""); err != nil {
		return err
	}
	return req.applyChoice(before.tools)
}

// applyChoice applies tool_choice to the tools of the request and those before.
func (req *Request) applyChoice(before []clienttool.Tool) error {
	t := &req.Tools
	t.Offered, t.Instructions = nil, nil
	seen := map[string]bool{}
	for _, tool := range slices.Backward(slices.Concat(before, req.paramTools.tools, req.itemTools.tools)) {
		if !seen[tool.Wire.Name] {
			seen[tool.Wire.Name] = true
			t.Offered = append(t.Offered, tool)
		}
	}
	slices.Reverse(t.Offered)
	var err error
	t.Offered, t.Instructions, err = req.choice.Choose("tool_choice", t.Offered, t.Single)
	return err
}

// toolReader reads the tools of a request.
type toolReader struct {
	tools   []clienttool.Tool
	ignored []string // parameters without effect
	read    int
}

func (r *toolReader) addAll(list []json.RawMessage, at, namespace string) error {
	if r.read += len(list); r.read > jsonbody.MaxList { // items of a conversation may repeat a tool
		return openai.Invalid("invalid_value", at,
			fmt.Sprintf("%s: there must not be more than %d tools, repeated ones included", at, jsonbody.MaxList))
	}
	for i, data := range list {
		if err := r.add(data, fmt.Sprintf("%s[%d]", at, i), namespace); err != nil {
			return err
		}
	}
	return nil
}

func (r *toolReader) ignore(what string) {
	if !slices.Contains(r.ignored, what) {
		r.ignored = append(r.ignored, what)
	}
}

func (r *toolReader) add(data json.RawMessage, at, namespace string) (err error) {
	var raw rawClientTool
	if !jsonbody.IsObject(data) || jsonbody.Unmarshal(data, &raw) != nil {
		return openai.Invalid("invalid_type", at, at+" must be a tool")
	}
	switch {
	case raw.Type == "namespace" && namespace == "":
		if err := jsonbody.CheckName(at+".name", raw.Name); err != nil {
			return err
		}
		return r.addAll(raw.Tools, at+".tools", raw.Name)
	case raw.Type == "web_search" && raw.WebAccess != nil && !*raw.WebAccess:
		// The codex CLI sends this tool, which may not access the web, with every request.
		r.ignore("tools")
		return nil
	case raw.Type == "tool_search" && raw.Execution == "client":
		raw.Name = SearchTool
	case raw.Type != "function" && raw.Type != "custom":
		return openai.Unsupported(at+".type", fmt.Sprintf(
			"%s: tools of type %q are not served; offer functions, custom tools or namespaces of them", at, openai.Clip(
				raw.Type)))
	}
	if err := jsonbody.CheckName(at+".name", raw.Name); err != nil {
		return err
	}
	tool := clienttool.Tool{Name: raw.Name, Namespace: namespace, Custom: raw.Type == "custom",
		Search: raw.Type == "tool_search", At: at}
	if tool.Custom {
		raw.Parameters = raw.Format.Schema()
	}
	if raw.Strict {
		r.ignore("tools.strict")
	}
	tool.Wire, err = clienttool.NewFunction(at+".parameters", clienttool.WireName(namespace, raw.Name), raw.Description,
		raw.Parameters)
	r.tools = append(r.tools, tool)
	return err
}

// namedTool is the tool that tool_choice names.
type namedTool struct {
	Type      string `json:"type"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func chosenTool(raw json.RawMessage) clienttool.Name {
	var choice namedTool
	_ = jsonbody.Unmarshal(raw, &choice) // without a name it names no tool
	return clienttool.Name{Namespace: choice.Namespace, Name: choice.Name}
}

func chosenTools(raw json.RawMessage) (choice clienttool.Allowed) {
	_ = jsonbody.Unmarshal(raw, &choice) // without a mode it is refused
	return choice
}
