package anthropic

import (
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// systemPrompt is the texts of a string or of a list of text blocks.
type systemPrompt []string

// billingHeader begins a block by which Claude Code reports its version to Anthropic. It differs in each request, and
// would keep the model endpoint from finding the prompt in its cache.
const billingHeader = "x-anthropic-billing-header:"

// UnmarshalJSONFrom accepts both forms.
func (s *systemPrompt) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	switch from.PeekKind() {
	case 'n':
		return from.SkipValue()
	case '"':
		var one string
		err := jsonv2.UnmarshalDecode(from, &one)
		*s = add(nil, one)
		return err
	case '[':
		return s.readBlocks(from)
	}
	return openai.Invalid("invalid_type", "system", "system: must be a string or a list of text blocks")
}

func (s *systemPrompt) readBlocks(from *jsontext.Decoder) error {
	return under("system", eachBlock(from, func(at string, b *rawBlock) error {
		switch {
		case b.Type != BlockText:
			return unsupported(at+".type", at+".type must be text")
		case b.Text == nil:
			return required(at + ".text")
		}
		*s = add(*s, *b.Text)
		return nil
	}))
}

func add(texts []string, text string) []string {
	if text == "" || strings.HasPrefix(text, billingHeader) {
		return texts
	}
	return append(texts, text)
}
