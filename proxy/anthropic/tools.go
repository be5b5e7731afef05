package anthropic

import (
	"encoding/json"
	"fmt"
	"strconv"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
)

// rawTool is a tool in a request. Its other members control when Anthropic's server loads and streams it; they change
// nothing here.
// Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview.
type rawTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// rawToolChoice is the parameter tool_choice.
type rawToolChoice struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Single bool   `json:"disable_parallel_tool_use"`
}

func (raw *rawRequest) applyTools(req *MessageRequest) error {
	if len(raw.Tools) > jsonbody.MaxList {
		return invalid("tools", fmt.Sprintf("must not hold more than %d tools", jsonbody.MaxList))
	}
	tools := make([]clienttool.Tool, 0, len(raw.Tools))
	for i, data := range raw.Tools {
		tool, err := readTool(data, "tools."+strconv.Itoa(i))
		if err != nil {
			return err
		}
		tools = append(tools, tool)
	}
	choice, err := raw.ToolChoice.choice()
	if err != nil {
		return err
	}
	req.Single = raw.ToolChoice != nil && raw.ToolChoice.Single
	offered, instructions, err := choice.Choose("tool_choice", tools, req.Single)
	req.Tools = offered
	req.Instructions = append(instructions, req.Instructions...)
	return err
}

func readTool(data json.RawMessage, at string) (clienttool.Tool, error) {
	var raw rawTool
	if err := jsonbody.Unmarshal(data, &raw); err != nil {
		return clienttool.Tool{}, under(at, jsonbody.DecodeError(err))
	}
	if raw.Type != "" && raw.Type != "custom" {
		known, ok := clientTool(raw.Type)
		if !ok {
			return clienttool.Tool{}, unsupported(at+".type", fmt.Sprintf(
				"%s.type: tools of type %q run on Anthropic's servers, and are not served here; leave it out, or offer a "+
					"tool of your own", at, openai.Clip(raw.Type)))
		}
		raw.Description, raw.InputSchema = known.description, json.RawMessage(known.schema)
	} else if len(raw.InputSchema) == 0 {
		return clienttool.Tool{}, required(at + ".input_schema")
	}
	return clienttool.New(at, at+".input_schema", raw.Name, raw.Description, raw.InputSchema)
}

// choice is the choice of tools; nil is auto.
func (c *rawToolChoice) choice() (choice clienttool.Choice, err error) {
	if c == nil {
		return choice, nil
	}
	switch c.Type {
	case "auto":
	case "any":
		choice.Must = true
	case "none":
		choice.Names = []clienttool.Name{}
	case "tool":
		if c.Name == "" {
			return choice, required("tool_choice.name")
		}
		choice.Must, choice.Names = true, []clienttool.Name{{Name: c.Name}}
	case "":
		return choice, required("tool_choice.type")
	default:
		return choice, invalid("tool_choice.type", "must be auto, any, tool or none")
	}
	return choice, nil
}

// knownTool is a tool that the client runs, with parameters that Anthropic's models know.
type knownTool struct {
	kind                *lazyregexp.Regexp
	description, schema string
}

func clientTool(kind string) (knownTool, bool) {
	for _, known := range knownTools {
		if known.kind.MatchString(kind) {
			return known, true
		}
	}
	return knownTool{}, false
}

// knownTools describe the tools that Anthropic's models know.
// Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/bash-tool, text-editor-tool and memory-tool.
var knownTools = []knownTool{{
	lazyregexp.New(`^bash_\d{8}$`),
	"Run a command in a persistent bash session, which keeps its working directory and variables.",
	`{"type":"object","properties":{` +
		`"command":{"type":"string","description":"The bash command to run. Required unless restart is true."},` +
		`"restart":{"type":"boolean","description":"Restarts the session, and runs no command."}}}`,
}, {
	lazyregexp.New(`^text_editor_\d{8}$`),
	"View, create and edit text files. Paths are absolute. view shows a file, with line numbers, or lists a directory; " +
		"create writes a new file; str_replace replaces the one place of a file that has old_str, exactly; insert puts " +
		"text after a line.",
	editorSchema(`"view","create","str_replace","insert"`, ``),
}, {
	lazyregexp.New(`^memory_\d{8}$`),
	"Keep notes that outlive the conversation, in files below /memories. view shows a file or lists a directory; create " +
		"writes a file; str_replace and insert edit one; delete removes a file or directory; rename moves it. View " +
		"/memories before you begin a task.",
	editorSchema(`"view","create","str_replace","insert","delete","rename"`,
		`,"old_path":{"type":"string","description":"Of rename: the path now."},`+
			`"new_path":{"type":"string","description":"Of rename: the path afterwards."}`),
}}

func editorSchema(commands, more string) string {
	return `{"type":"object","properties":{"command":{"type":"string","enum":[` + commands + `]},` +
		`"path":{"type":"string","description":"The path of the file or directory."},` +
		`"view_range":{"type":"array","items":{"type":"integer"},"description":"Of view: the first and the last line; ` +
		`-1 is the end."},` +
		`"file_text":{"type":"string","description":"Of create: the content."},` +
		`"old_str":{"type":"string","description":"Of str_replace: the text to replace."},` +
		`"new_str":{"type":"string","description":"Of str_replace: the new text."},` +
		`"insert_line":{"type":"integer","description":"Of insert: the line after which to insert; 0 is the beginning."},` +
		`"insert_text":{"type":"string","description":"Of insert: the text."}` + more + `},"required":["command"]}`
}
