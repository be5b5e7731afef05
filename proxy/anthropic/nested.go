package anthropic

import (
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/media"
)

// deepest is the depth of a block that may have blocks: a document in a search result of a tool has it. Each level
// copies the texts of the levels below it.
const deepest = 7

// nested is the content of a block: text, or blocks of the user. The paths of its parts are relative to the block that
// holds it. Its error counts only if the content of the block is read: a record of a server's tool holds anything.
type nested struct {
	parts []media.Part
	err   error
}

// read returns the parts, with paths below the block at.
func (n *nested) read(at string) ([]media.Part, error) {
	for i := range n.parts {
		n.parts[i].At = at + "." + n.parts[i].At
	}
	return n.parts, under(at, n.err)
}

// UnmarshalJSONFrom accepts both forms. Of the results of server tools, it accepts an object.
func (n *nested) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	kind := from.PeekKind()
	switch {
	case kind == '"':
		var text string
		err := jsonv2.UnmarshalDecode(from, &text)
		n.parts = []media.Part{{Text: text, At: "content"}}
		return err
	case kind == '[' && from.StackDepth() > deepest:
		n.err = unsupported("content", "content: blocks cannot be in so many others")
		return from.SkipValue()
	case kind == '[':
		return under("content", eachBlock(from, func(at string, b *rawBlock) error {
			if n.err != nil {
				return nil
			}
			parts, err := b.parts("content." + at)
			n.parts, n.err = append(n.parts, parts...), err
			return nil
		}))
	default:
		return from.SkipValue()
	}
}

// parts is a block of the user that can also be in the result of a tool.
func (b *rawBlock) parts(at string) ([]media.Part, error) {
	switch b.Type {
	case "":
		return nil, required(at + ".type")
	case BlockText:
		if b.Text == nil {
			return nil, required(at + ".text")
		}
		return []media.Part{{Text: *b.Text, At: at}}, nil
	case BlockImage:
		return b.Source.image(at + ".source")
	case "document":
		return b.document(at)
	case "search_result":
		head := fmt.Sprintf("[search result: %s, %s]\n", oneLine(b.Title), oneLine(b.Source.text))
		parts, err := b.Content.read(at)
		return framed(at, head, parts, "\n[end of the search result]"), err
	case "tool_reference":
		return []media.Part{{Text: fmt.Sprintf("The tool %s can be called.", wireName(b.ToolName)), At: at}}, nil
	}
	if hosted(b.Type) {
		return nil, nil
	}
	return nil, unsupported(at+".type",
		fmt.Sprintf("%s.type: blocks of type %q are not supported here", at, openai.Clip(b.Type)))
}

// document is the text of a document between two lines with its title.
func (b *rawBlock) document(at string) ([]media.Part, error) {
	parts, err := b.Source.document(at + ".source")
	if err != nil {
		return nil, err
	}
	title := oneLine(b.Title)
	if title == "" {
		title = "untitled"
	}
	head := "[document: " + title + "]\n"
	if b.Context != "" {
		head += "[context: " + oneLine(b.Context) + "]\n"
	}
	return framed(at, head, parts, "\n[end of the document: "+title+"]"), nil
}

// framed is parts between two texts. A single text stays one.
func framed(at, head string, parts []media.Part, tail string) []media.Part {
	if len(parts) == 1 && parts[0].Image == nil {
		return []media.Part{{Text: head + parts[0].Text + tail, At: at}}
	}
	list := make([]media.Part, 0, len(parts)+2)
	list = append(list, media.Part{Text: head, At: at})
	return append(append(list, parts...), media.Part{Text: tail, At: at})
}

// longTitle is how much of a title is looked at, in bytes: its words take eight times as much memory.
const longTitle = 4 << 10

// oneLine is a title without line breaks, of at most 500 bytes.
func oneLine(s string) string {
	if len(s) > longTitle {
		s = strings.ToValidUTF8(s[:longTitle], "")
	}
	return openai.Bounded(strings.Join(strings.Fields(s), " "))
}

func wireName(name string) string { return clienttool.WireName("", name) }
