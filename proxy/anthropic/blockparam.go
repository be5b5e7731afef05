package anthropic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
)

// Types of blocks.
const (
	BlockText       = "text"
	BlockImage      = "image"
	BlockThinking   = "thinking"
	BlockToolUse    = "tool_use"
	BlockToolResult = "tool_result"
)

// BlockParam is one block of a message. Type determines the fields that are set. Documents and search results have
// become text.
type BlockParam struct {
	Type      string
	At        string       // its path, for errors; of an image, the path of its source
	Text      string       // of text, and the summary of thinking
	Signature string       // of thinking: as it was sent to the client, or another API's
	Image     *media.Image // of an image
	Call      *clienttool.Call
	CallID    string       // of a tool_result: the call that it answers
	Parts     []media.Part // of a tool_result: at least one
}

// rawBlock is a block in a request.
type rawBlock struct {
	Type      string         `json:"type"`
	Text      *string        `json:"text"`
	Source    source         `json:"source"`
	Title     string         `json:"title"`
	Context   string         `json:"context"`
	Content   nested         `json:"content"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	ToolUseID string         `json:"tool_use_id"`
	IsError   bool           `json:"is_error"`
	Thinking  string         `json:"thinking"`
	Signature string         `json:"signature"`
	Data      string         `json:"data"`
	ToolName  string         `json:"tool_name"`
}

// eachBlock decodes the blocks of a list one after the other. read gets the index of each as its path; the path of an
// *openai.Error begins with it.
func eachBlock(from *jsontext.Decoder, read func(at string, b *rawBlock) error) error {
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	var b rawBlock // one for all: it is large
	for i := 0; from.PeekKind() != ']'; i++ {
		at := strconv.Itoa(i)
		if i == jsonbody.MaxList {
			return openai.Invalid("invalid_value", "", fmt.Sprintf("a list must not hold more than %d blocks", i))
		}
		b = rawBlock{}
		kind := from.PeekKind()
		var known *openai.Error
		switch err := jsonv2.UnmarshalDecode(from, &b); {
		case errors.As(err, &known):
			return under(at, known)
		case err != nil:
			return err
		case kind != '{':
			return invalid(at, "must be a content block, which is an object")
		}
		if err := read(at, &b); err != nil {
			return err
		}
	}
	_, err := from.ReadToken()
	return err
}

// blockList reads a list with eachBlock.
type blockList func(at string, b *rawBlock) error

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (read *blockList) UnmarshalJSONFrom(from *jsontext.Decoder) error { return eachBlock(from, *read) }

// blockReader reads the blocks of all messages of a request.
type blockReader struct {
	request *MessageRequest
	role    string
	blocks  []BlockParam // of the message
	pdf     string       // path of the message's first PDF outside of results of tools; empty: none
}

// content reads a string or a list of blocks.
func (r *blockReader) content(c jsonbody.Content, at, role string) ([]BlockParam, error) {
	r.role, r.blocks, r.pdf = role, nil, ""
	switch {
	case !c.Set:
		return nil, required(at)
	case c.Parts == nil:
		r.text(at, c.Text)
	case jsontext.Value(c.Parts).Kind() != '[':
		return nil, openai.Invalid("invalid_type", at, at+": must be a string or a list of content blocks")
	default:
		list := blockList(func(index string, b *rawBlock) error { return r.block(b, at+"."+index) })
		if err := jsonbody.Unmarshal(c.Parts, &list); err != nil {
			return nil, under(at, relative(at, jsonbody.DecodeError(err)))
		}
	}
	switch {
	case len(r.blocks) == 0 && role == roleUser:
		return nil, invalid(at, "user messages must have non-empty content")
	case r.pdf != "" && !slices.ContainsFunc(r.blocks, isResult):
		return nil, unsupported(r.pdf,
			r.pdf+": PDFs are not read; send the text of the document, or images of its pages")
	}
	return r.blocks, nil
}

func isResult(b BlockParam) bool { return b.Type == BlockToolResult }

// relative takes the place at off the path of an error.
func relative(at string, err error) error {
	var e *openai.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Param, at+".") {
		return err
	}
	cut := *e
	cut.Param, cut.Message = e.Param[len(at)+1:], strings.TrimPrefix(e.Message, at+".")
	return &cut
}

func (r *blockReader) text(at, text string) {
	if text != "" {
		r.blocks = append(r.blocks, BlockParam{Type: BlockText, At: at, Text: text})
	}
}

// hostedBlocks are records of tools that ran on a server, and of its changes to the conversation: the model has put
// their results into its text.
var hostedBlocks = []string{
	"server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
	"bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result",
	"mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "advisor_tool_result", "fallback", "tool_addition",
	"tool_removal",
}

// blockRoles are the roles of the messages in which blocks of a type can be.
var blockRoles = map[string][]string{
	BlockText:           {roleUser, roleAssistant, roleSystem},
	BlockImage:          {roleUser},
	"document":          {roleUser},
	"search_result":     {roleUser},
	BlockToolResult:     {roleUser},
	BlockToolUse:        {roleAssistant},
	BlockThinking:       {roleAssistant},
	"redacted_thinking": {roleAssistant},
	"compaction":        {roleUser, roleAssistant},
}

func (r *blockReader) block(b *rawBlock, at string) error {
	roles, known := blockRoles[b.Type]
	switch {
	case b.Type == "":
		return required(at + ".type")
	case hosted(b.Type):
		r.request.Ignored = append(r.request.Ignored, "messages."+b.Type)
		return nil
	case !known:
		return unsupported(at+".type",
			fmt.Sprintf("%s.type: blocks of type %q are not supported", at, openai.Clip(b.Type)))
	case !slices.Contains(roles, r.role):
		return invalid(at, fmt.Sprintf("`%s` blocks can only be in `%s` messages", b.Type, roles[0]))
	}
	switch b.Type {
	case BlockThinking:
		r.thinking(at, b.Thinking, b.Signature)
	case "redacted_thinking":
		r.thinking(at, "", b.Data)
	case BlockToolUse:
		return r.toolUse(b, at)
	case BlockToolResult:
		return r.toolResult(b, at)
	case "compaction":
		return r.parts(b.Content.read(at))
	default:
		if b.Source.isPDF() && b.Type == "document" {
			r.pdf = cmp.Or(r.pdf, at+".source")
		}
		return r.parts(b.parts(at))
	}
	return nil
}

// parts adds parts of the user as blocks.
func (r *blockReader) parts(parts []media.Part, err error) error {
	for _, p := range parts {
		if p.Image == nil {
			r.text(p.At, p.Text)
			continue
		}
		r.blocks = append(r.blocks, BlockParam{Type: BlockImage, At: p.At, Image: p.Image})
	}
	return err
}

func (r *blockReader) thinking(at, text, signature string) {
	r.blocks = append(r.blocks, BlockParam{Type: BlockThinking, At: at, Text: text, Signature: signature})
}

func (r *blockReader) toolUse(b *rawBlock, at string) error {
	switch {
	case b.ID == "":
		return required(at + ".id")
	case len(b.Input) == 0:
		return required(at + ".input")
	case b.Input.Kind() != '{':
		return invalid(at+".input", "Input should be a valid dictionary")
	}
	if err := jsonbody.CheckName(at+".name", b.Name); err != nil {
		return err
	}
	if err := b.Input.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
		return invalid(at+".input", err.Error()) // not possible: the body is JSON
	}
	call := &clienttool.Call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)}
	r.blocks = append(r.blocks, BlockParam{Type: BlockToolUse, At: at, Call: call})
	return nil
}

// errorPrefix precedes the result of a call that failed, as codex has no other mark for it.
const errorPrefix = "Error: "

func (r *blockReader) toolResult(b *rawBlock, at string) error {
	if b.ToolUseID == "" {
		return required(at + ".tool_use_id")
	}
	parts, err := b.Content.read(at)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		parts = []media.Part{{At: at}}
	}
	if b.IsError {
		parts = markError(parts)
	}
	r.blocks = append(r.blocks, BlockParam{Type: BlockToolResult, At: at, CallID: b.ToolUseID, Parts: parts})
	return nil
}

func markError(parts []media.Part) []media.Part {
	first := &parts[0]
	switch {
	case first.Image != nil:
		return slices.Insert(parts, 0, media.Part{Text: strings.TrimSpace(errorPrefix), At: first.At})
	case !strings.Contains(strings.ToLower(first.Text[:min(len(first.Text), 64)]), "error"):
		first.Text = errorPrefix + first.Text
	}
	return parts
}

func hosted(kind string) bool { return slices.Contains(hostedBlocks, kind) }
