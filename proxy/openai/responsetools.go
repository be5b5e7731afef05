package openai

import (
	"encoding/json"
	"fmt"
	"slices"
)

// ClientTools are the tools of a request.
type ClientTools struct {
	Offered []ClientTool      // the tools that the model may call
	Echoed  []json.RawMessage // of the parameter, for the response; see echoedTools
	Choice  json.RawMessage   // tool_choice, for the response
	Single  bool              // the client accepts one call in an answer
	// Instructions replace settings that codex does not have.
	Instructions []string
}

// SearchTool is the name for the model of a client's tool_search, which has no name.
const SearchTool = "tool_search"

func (t ClientTools) byWireName() map[string]ClientTool {
	m := make(map[string]ClientTool, len(t.Offered))
	for _, tool := range t.Offered {
		m[tool.Wire.Name] = tool
	}
	return m
}

// FoundTools are the tools of a tool_search_output, which has been checked, in the form for the model.
func FoundTools(tools []json.RawMessage) []Tool {
	var found toolReader
	_ = found.addAll(tools, "tools", "") // it has succeeded before
	list := make([]Tool, 0, len(found.tools))
	for _, tool := range found.tools {
		list = append(list, tool.Wire)
	}
	return list
}

// rawClientTool is a tool in a request.
type rawClientTool struct {
	Type        string                       `json:"type"`
	Name        string                       `json:"name"`
	Description string                       `json:"description"`
	Parameters  json.RawMessage              `json:"parameters"`
	Strict      bool                         `json:"strict"`
	Tools       boundedList[json.RawMessage] `json:"tools"` // of a namespace
	Format      toolFormat                   `json:"format"`
	WebAccess   *bool                        `json:"external_web_access"`
	Execution   string                       `json:"execution"` // of a tool_search
}

// applyTools applies tools, tool_choice and parallel_tool_calls, and the tools in items of the input.
func (raw rawResponse) applyTools(req *ResponseRequest) error {
	t := &req.Tools
	t.Single, t.Choice = raw.ParallelToolCalls != nil && !*raw.ParallelToolCalls, json.RawMessage(`"auto"`)
	if !isUnset(raw.ToolChoice) || string(raw.ToolChoice) == `"none"` {
		t.Choice = raw.ToolChoice
	}
	if err := req.paramTools.addAll(raw.Tools, "tools", ""); err != nil {
		return err
	}
	if err := checkTools("tools", req.paramTools.tools); err != nil {
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
	if req.choice, err = chooseTools(raw.ToolChoice, chosenTool, chosenTools); err != nil ||
		req.mayHaveEarlierTools() {
		return err
	}
	return req.applyChoice(nil)
}

// mayHaveEarlierTools reports whether an earlier part of the conversation may have further tools.
func (req *ResponseRequest) mayHaveEarlierTools() bool {
	return req.Previous != "" || slices.ContainsFunc(req.Input, func(in InputItem) bool { return in.Reference != "" })
}

// AddTools also offers the model the tools of an earlier part of the conversation, which have been checked before. Of
// two tools with the same name the later one counts. A request that refers to earlier items has no tools until
// AddTools, because tool_choice may name any of them.
func (req *ResponseRequest) AddTools(earlier []json.RawMessage) error {
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
func (req *ResponseRequest) applyChoice(before []ClientTool) error {
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
	if err := checkTools("tools", t.Offered); err != nil {
		return err
	}
	var err error
	if t.Offered, err = req.choice.apply("tool_choice", t.Offered); err != nil {
		return err
	}
	if text := req.choice.instruction(); text != "" {
		t.Instructions = append(t.Instructions, text)
	}
	if t.Single && len(t.Offered) > 1 {
		t.Instructions = append(t.Instructions, oneCall)
	}
	return nil
}

// toolReader reads the tools of a request.
type toolReader struct {
	tools   []ClientTool
	ignored []string // parameters without effect
	read    int
}

func (r *toolReader) addAll(list []json.RawMessage, at, namespace string) error {
	if r.read += len(list); r.read > maxList { // items of a conversation may repeat a tool
		return Invalid("invalid_value", at,
			fmt.Sprintf("%s: there must not be more than %d tools, repeated ones included", at, maxList))
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
	if !isObject(data) || unmarshal(data, &raw) != nil {
		return Invalid("invalid_type", at, at+" must be a tool")
	}
	switch {
	case raw.Type == "namespace" && namespace == "":
		if err := checkToolName(at+".name", raw.Name); err != nil {
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
		return unsupported(at+".type", fmt.Sprintf(
			"%s: tools of type %q are not served; offer functions, custom tools or namespaces of them", at, clip(
				raw.Type)))
	}
	if err := checkToolName(at+".name", raw.Name); err != nil {
		return err
	}
	tool := ClientTool{Name: raw.Name, Namespace: namespace, Custom: raw.Type == "custom",
		Search: raw.Type == "tool_search", at: at}
	if tool.Custom {
		raw.Parameters = raw.Format.schema()
	}
	if raw.Strict {
		r.ignore("tools.strict")
	}
	tool.Wire, err = newTool(at+".parameters", WireName(namespace, raw.Name), raw.Description, raw.Parameters)
	r.tools = append(r.tools, tool)
	return err
}

// clientChoice is the tool that tool_choice names.
type clientChoice struct {
	Type      string `json:"type"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func chosenTool(raw json.RawMessage) toolName {
	var choice clientChoice
	_ = unmarshal(raw, &choice) // without a name it names no tool
	return toolName{choice.Namespace, choice.Name}
}

func chosenTools(raw json.RawMessage) (choice allowedTools) {
	_ = unmarshal(raw, &choice) // without a mode it is refused
	return choice
}
