package wire

import (
	"fmt"
	"slices"
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
)

// maxName is the length of a participant's name in the OpenAI reference.
const maxName = 64

// Message is one turn of the history.
type Message struct {
	Role string // system, developer, user, assistant or tool
	Name string // of the participant; may be empty
	// Parts are the content; an assistant's message with calls may have none. The parts of a tool are texts.
	Parts []media.Part
	// Calls are an assistant's calls of tools. For each there is one answer among the messages of role tool that
	// follow.
	Calls []clienttool.Call
	// CallID is the call that a message of role tool answers.
	CallID string
}

func (m Message) lowDetail() bool {
	return slices.ContainsFunc(m.Parts, func(p media.Part) bool { return p.Image != nil && p.Image.Detail == "low" })
}

// rawMessage is a message in a request.
type rawMessage struct {
	Role         string                 `json:"role"`
	Content      jsonbody.Content       `json:"content"`
	Name         string                 `json:"name"`
	Refusal      string                 `json:"refusal"`
	ToolCalls    jsonbody.List[rawCall] `json:"tool_calls"`
	ToolCallID   string                 `json:"tool_call_id"`
	FunctionCall *rawCallBody           `json:"function_call"`
	Audio        *struct{}              `json:"audio"`
}

type rawCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function *rawCallBody `json:"function"`
	Custom   *rawCallBody `json:"custom"`
}

// rawCallBody is a called function or custom tool.
type rawCallBody struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // of a function
	Input     string `json:"input"`     // of a custom tool
}

func (m rawMessage) validate(at string) (message Message, err error) {
	message.Role = m.Role
	if m.Role != "assistant" && (len(m.ToolCalls) > 0 || m.FunctionCall != nil) {
		return message, openai.Invalid("invalid_value", at+".tool_calls",
			at+": only messages with the role assistant call tools")
	}
	content := at + ".content"
	switch m.Role {
	case "system", "developer":
		message.Parts, err = readContent(m.Content, content, "text")
	case "user":
		message.Parts, err = readContent(m.Content, content, "text", "image_url", "file")
	case "assistant":
		return m.assistant(at)
	case "tool":
		message.CallID = m.ToolCallID
		message.Parts, err = readContent(m.Content, content, "text")
		return message, err
	case "function": // legacy: it answers the function_call before it, see pairCalls
		message.Name = m.Name
		message.Parts, err = readContent(m.Content, content, "text")
		return message, err
	case "":
		return message, openai.Invalid("role_required", at+".role", at+".role is required")
	default:
		return message, openai.Invalid("invalid_value", at+".role", fmt.Sprintf(
			"%s.role must be system, developer, user, assistant, tool or function, not %q", at, openai.Clip(m.Role)))
	}
	if err == nil {
		message.Name, err = m.Name, checkName(at+".name", m.Name)
	}
	return message, err
}

// assistant returns the text and the calls of the model. A refusal counts as text.
func (m rawMessage) assistant(at string) (message Message, err error) {
	message.Role, message.Name = m.Role, m.Name
	if err := checkName(at+".name", m.Name); err != nil {
		return message, err
	}
	if m.Audio != nil {
		return message, openai.Unsupported(at+".audio", at+": audio is not supported; send a transcript")
	}
	if message.Calls, err = m.calls(at); err != nil {
		return message, err
	}
	if m.Content.Set || message.Calls == nil && m.Refusal == "" {
		if message.Parts, err = readContent(m.Content, at+".content", "text", "refusal"); err != nil {
			return message, err
		}
	}
	if m.Refusal != "" {
		message.Parts = append(message.Parts, media.Part{Text: m.Refusal, At: at + ".refusal"})
	}
	return message, nil
}

func (m rawMessage) calls(at string) ([]clienttool.Call, error) {
	if m.FunctionCall != nil {
		if len(m.ToolCalls) > 0 {
			return nil, openai.Invalid("invalid_value", at+".function_call",
				at+" must have either tool_calls or the legacy function_call")
		}
		return []clienttool.Call{{Name: m.FunctionCall.Name, Arguments: m.FunctionCall.Arguments}}, jsonbody.CheckName(
			at+".function_call.name", m.FunctionCall.Name)
	}
	if len(m.ToolCalls) > jsonbody.MaxList {
		return nil, openai.Invalid("invalid_value", at+".tool_calls",
			fmt.Sprintf("%s.tool_calls must not hold more than %d calls", at, jsonbody.MaxList))
	}
	if m.ToolCalls == nil {
		return nil, nil
	}
	calls := make([]clienttool.Call, 0, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		call, err := c.read(fmt.Sprintf("%s.tool_calls[%d]", at, i))
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

func (c rawCall) read(at string) (clienttool.Call, error) {
	if c.ID == "" {
		return clienttool.Call{}, openai.Invalid("tool_call_id_required", at+".id", at+".id is required")
	}
	custom, called, field := c.Type == "custom", c.Function, at+".function"
	switch {
	case custom:
		called, field = c.Custom, at+".custom"
	case c.Type != "" && c.Type != "function":
		return clienttool.Call{}, openai.Unsupported(at+".type",
			fmt.Sprintf("%s.type must be function or custom; %q is not supported", at, openai.Clip(c.Type)))
	}
	if called == nil {
		return clienttool.Call{}, openai.Invalid("name_required", field+".name", field+" is required")
	}
	call := clienttool.Call{ID: c.ID, Name: called.Name, Arguments: called.Arguments, Custom: custom}
	if custom {
		call.Arguments = called.Input
	}
	return call, jsonbody.CheckName(field+".name", call.Name)
}

func checkName(at, name string) error {
	if len(name) > maxName || strings.ContainsAny(name, " \t\r\n<|\\/>") {
		return openai.Invalid("invalid_value", at,
			fmt.Sprintf("%s must have at most %d characters and no space, <, >, |, / or \\", at, maxName))
	}
	return nil
}
