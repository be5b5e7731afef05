package wire

import (
	"cmp"
	"encoding/json"
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
)

type rawTool struct {
	Type     string         `json:"type"`
	Function *rawFunction   `json:"function"`
	Custom   *rawCustomTool `json:"custom"`
}

type rawFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

type rawCustomTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Format      struct {
		Type    string                 `json:"type"`
		Grammar clienttool.InputFormat `json:"grammar"`
	} `json:"format"`
}

// format is the format in the form of the Responses API.
func (t rawCustomTool) format() clienttool.InputFormat {
	f := t.Format.Grammar
	f.Type = t.Format.Type
	return f
}

// toolset holds the tool parameters of a chat request, in their present or their legacy form.
type toolset struct {
	tools  []clienttool.Tool
	choice clienttool.Choice
	strict bool // some function asks for strict
	single bool // one call at a time
}

func (raw rawChat) toolset() (toolset, error) {
	if len(raw.Functions) > 0 || !jsonbody.IsUnset(raw.FunctionCall) {
		if len(raw.Tools) > 0 || !jsonbody.IsUnset(raw.ToolChoice) {
			return toolset{}, openai.Invalid("invalid_value", "functions",
				"send tools and tool_choice or their legacy forms functions and function_call, not both")
		}
		return raw.legacyTools()
	}
	set := toolset{single: raw.ParallelToolCalls != nil && !*raw.ParallelToolCalls}
	for i, t := range raw.Tools {
		if err := set.read(fmt.Sprintf("tools[%d]", i), t); err != nil {
			return set, err
		}
	}
	if err := clienttool.CheckList("tools", set.tools); err != nil {
		return set, err
	}
	var err error
	if set.choice, err = clienttool.ReadChoice(raw.ToolChoice, chosenChatTool, chosenAllowedTools); err != nil {
		return set, err
	}
	set.tools, err = set.choice.Apply("tool_choice", set.tools)
	return set, err
}

// read adds a tool of the present form.
func (s *toolset) read(at string, t rawTool) error {
	switch {
	case t.Type == "custom" && t.Custom == nil:
		return openai.Invalid("name_required", at+".custom.name", at+".custom is required")
	case t.Type == "custom":
		custom := rawFunction{Name: t.Custom.Name, Description: t.Custom.Description,
			Parameters: t.Custom.format().Schema()}
		return s.add(at+".custom", custom, true)
	case t.Type != "function":
		return openai.Unsupported(at+".type",
			fmt.Sprintf("%s.type must be function or custom; %q is not supported", at, openai.Clip(t.Type)))
	case t.Function == nil:
		return openai.Invalid("name_required", at+".function.name", at+".function is required")
	}
	return s.add(at+".function", *t.Function, false)
}

func (s *toolset) add(at string, f rawFunction, custom bool) error {
	if err := jsonbody.CheckName(at+".name", f.Name); err != nil {
		return err
	}
	wire, err := clienttool.NewFunction(at+".parameters", clienttool.WireName("", f.Name), f.Description, f.Parameters)
	s.tools = append(s.tools, clienttool.Tool{Name: f.Name, Custom: custom, Wire: wire, At: at})
	s.strict = s.strict || f.Strict != nil && *f.Strict
	return err
}

// legacyTools are functions and function_call. An answer has room for one call.
func (raw rawChat) legacyTools() (toolset, error) {
	set := toolset{single: true}
	for i, f := range raw.Functions {
		if err := set.add(fmt.Sprintf("functions[%d]", i), f, false); err != nil {
			return set, err
		}
	}
	err := clienttool.CheckList("functions", set.tools)
	if err != nil {
		return set, err
	}
	if set.choice, err = legacyChoice(raw.FunctionCall); err != nil {
		return set, err
	}
	set.tools, err = set.choice.Apply("function_call", set.tools)
	return set, err
}

func legacyChoice(raw json.RawMessage) (clienttool.Choice, error) {
	var word string
	var function struct {
		Name string `json:"name"`
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return clienttool.Choice{}, nil
	case jsonbody.Unmarshal(raw, &word) == nil && (word == "none" || word == "auto"):
		return clienttool.ChoiceByWord("function_call", word)
	case jsonbody.Unmarshal(raw, &function) == nil && function.Name != "":
		return clienttool.Choice{Must: true, Names: []clienttool.Name{{Name: function.Name}}}, nil
	}
	return clienttool.Choice{}, openai.Invalid("invalid_value", "function_call",
		"function_call must be none or auto, or name a function")
}

// chosenChatTool is the name in {"type":"function","function":{…}} or {"type":"custom","custom":{…}}.
func chosenChatTool(raw json.RawMessage) clienttool.Name {
	type named struct {
		Name string `json:"name"`
	}
	var choice struct {
		Function named `json:"function"`
		Custom   named `json:"custom"`
	}
	_ = jsonbody.Unmarshal(raw, &choice) // without a name it names no tool
	return clienttool.Name{Name: cmp.Or(choice.Function.Name, choice.Custom.Name)}
}

func chosenAllowedTools(raw json.RawMessage) clienttool.Allowed {
	var choice struct {
		AllowedTools clienttool.Allowed `json:"allowed_tools"`
	}
	_ = jsonbody.Unmarshal(raw, &choice) // without a mode it is refused
	return choice.AllowedTools
}

// instructions replace settings that codex does not have.
func (s toolset) instructions() []string {
	return s.choice.Instructions(s.tools, s.single)
}
