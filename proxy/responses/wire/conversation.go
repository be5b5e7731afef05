package wire

import (
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// maxNewItems is how many items a request may add to a conversation. Source: OpenAI API reference, "Create items".
const maxNewItems = 20

// NewItems is the parameter items: items that a conversation gets.
type NewItems struct{ in rawInput }

// Set reports whether the request has the parameter.
func (n *NewItems) Set() bool { return n.in.set }

// UnmarshalJSONFrom accepts a list.
func (n *NewItems) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	n.in.name = "items"
	switch from.PeekKind() {
	case '[':
		n.in.set = true
		return n.in.readItems(from)
	case 'n':
		return from.SkipValue()
	}
	if err := from.SkipValue(); err != nil {
		return err
	}
	return openai.Invalid("invalid_type", "items", "items must be a list of items")
}

// Read checks the items. It also returns the parameters without effect.
func (n *NewItems) Read() (list []InputItem, ignored []string, err error) {
	if len(n.in.items) > maxNewItems {
		return nil, nil, openai.Invalid("invalid_value", "items",
			fmt.Sprintf("items must not hold more than %d items; add the others by further requests", maxNewItems))
	}
	if !n.in.set {
		return nil, nil, nil
	}
	var read items
	if err := read.addAll(&n.in); err != nil {
		return nil, nil, err
	}
	if at := len(n.in.items) - 1; read.compaction != nil {
		return nil, nil, openai.Unsupported(n.in.at(at)+".type",
			fmt.Sprintf("%s: a %s asks for a response; send it as the last item of its input", n.in.at(at),
				itemTrigger))
	}
	for _, item := range read.list {
		if item.Reference != "" {
			return nil, nil, openai.Unsupported(item.At,
				item.At+": a conversation holds no references; send the item itself")
		}
	}
	return read.list, read.ignored, nil
}

// rawConversation is the parameter conversation of a response: an id, or an object with one.
type rawConversation struct{ ID string }

// UnmarshalJSONFrom accepts both forms.
func (c *rawConversation) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	switch from.PeekKind() {
	case 'n':
		return from.SkipValue()
	case '"':
		if err := jsonv2.UnmarshalDecode(from, &c.ID); err != nil {
			return err
		}
	case '{':
		var object struct {
			ID string `json:"id"`
		}
		if err := jsonv2.UnmarshalDecode(from, &object); err != nil {
			return err
		}
		c.ID = object.ID
	default:
		if err := from.SkipValue(); err != nil {
			return err
		}
	}
	if c.ID == "" {
		return openai.Invalid("invalid_value", "conversation",
			`conversation must be the id of a conversation, or {"id": …}`)
	}
	return nil
}
