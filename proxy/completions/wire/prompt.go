package wire

import (
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// prompt is the text of a completion: a string, or a list of one string.
type prompt struct {
	set  bool
	text string
}

// UnmarshalJSONFrom explains the forms of the OpenAI reference that no worker can serve.
func (p *prompt) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	switch from.PeekKind() {
	case '"':
		return p.read(from)
	case '[':
		return p.readList(from)
	case 'n':
		return from.SkipValue()
	default:
		return openai.Invalid("invalid_type", "prompt", "prompt must be a string, or a list of one string")
	}
}

func (p *prompt) read(from *jsontext.Decoder) error {
	p.set = true
	return jsonv2.UnmarshalDecode(from, &p.text)
}

func (p *prompt) readList(from *jsontext.Decoder) error {
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	for from.PeekKind() != ']' {
		switch kind := from.PeekKind(); {
		case p.set:
			return openai.Unsupported("prompt",
				"prompt must hold one string: a request runs one prompt; send each prompt in a request of its own")
		case kind == '0' || kind == '[':
			return openai.Unsupported("prompt",
				"prompt must be text: codex takes no token numbers; send the text itself")
		case kind != '"':
			return openai.Invalid("invalid_type", "prompt[0]", "prompt[0] must be a string")
		}
		if err := p.read(from); err != nil {
			return err
		}
	}
	_, err := from.ReadToken()
	return err
}
