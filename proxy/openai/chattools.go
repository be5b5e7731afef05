package openai

import (
	"encoding/json"
	"fmt"
)

type rawTool struct {
	Type     string       `json:"type"`
	Function *rawFunction `json:"function"`
}

type rawFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

// toolset holds the tool parameters of a chat request, in their present or their legacy form.
type toolset struct {
	tools  []Tool
	choice toolChoice
	strict bool // some function asks for strict
	single bool // one call at a time
}

func (raw rawChat) toolset() (toolset, error) {
	if len(raw.Functions) > 0 || !isUnset(raw.FunctionCall) {
		if len(raw.Tools) > 0 || !isUnset(raw.ToolChoice) {
			return toolset{}, Invalid("invalid_value", "functions",
				"send tools and tool_choice or their legacy forms functions and function_call, not both")
		}
		return raw.legacyTools()
	}
	set := toolset{single: raw.ParallelToolCalls != nil && !*raw.ParallelToolCalls}
	for i, t := range raw.Tools {
		at := fmt.Sprintf("tools[%d]", i)
		switch {
		case t.Type != "function":
			return set, unsupported(at+".type",
				fmt.Sprintf("%s.type must be function; %q is not supported", at, clip(t.Type)))
		case t.Function == nil:
			return set, Invalid("name_required", at+".function.name", at+".function is required")
		}
		if err := set.add(at+".function", *t.Function); err != nil {
			return set, err
		}
	}
	if err := checkTools("tools", set.tools,
		func(i int) string { return fmt.Sprintf("tools[%d].function.name", i) }); err != nil {
		return set, err
	}
	var err error
	if set.choice, err = chooseTools(raw.ToolChoice, chosenFunction, chosenAllowedTools); err != nil {
		return set, err
	}
	set.tools, err = set.choice.apply("tool_choice", set.tools)
	return set, err
}

func (s *toolset) add(at string, f rawFunction) error {
	tool, err := newTool(at, f.Name, f.Description, f.Parameters)
	s.tools = append(s.tools, tool)
	s.strict = s.strict || f.Strict != nil && *f.Strict
	return err
}

// legacyTools are functions and function_call. An answer has room for one call.
func (raw rawChat) legacyTools() (toolset, error) {
	set := toolset{single: true}
	for i, f := range raw.Functions {
		if err := set.add(fmt.Sprintf("functions[%d]", i), f); err != nil {
			return set, err
		}
	}
	err := checkTools("functions", set.tools, func(i int) string { return fmt.Sprintf("functions[%d].name", i) })
	if err != nil {
		return set, err
	}
	if set.choice, err = legacyChoice(raw.FunctionCall); err != nil {
		return set, err
	}
	set.tools, err = set.choice.apply("function_call", set.tools)
	return set, err
}

func legacyChoice(raw json.RawMessage) (toolChoice, error) {
	var word string
	var function struct {
		Name string `json:"name"`
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return toolChoice{}, nil
	case unmarshal(raw, &word) == nil && (word == "none" || word == "auto"):
		return choiceByWord("function_call", word)
	case unmarshal(raw, &function) == nil && function.Name != "":
		return toolChoice{must: true, names: []string{function.Name}}, nil
	}
	return toolChoice{}, Invalid("invalid_value", "function_call",
		"function_call must be none or auto, or name a function")
}

func chosenFunction(raw json.RawMessage) string {
	var choice struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = unmarshal(raw, &choice) // without a name it names no tool
	return choice.Function.Name
}

func chosenAllowedTools(raw json.RawMessage) allowedTools {
	var choice struct {
		AllowedTools allowedTools `json:"allowed_tools"`
	}
	_ = unmarshal(raw, &choice) // without a mode it is refused
	return choice.AllowedTools
}

// instructions replace settings that codex does not have.
func (s toolset) instructions() []string {
	var list []string
	if text := s.choice.instruction(); text != "" {
		list = append(list, text)
	}
	if s.single && len(s.tools) > 1 {
		list = append(list, oneCall)
	}
	return list
}
