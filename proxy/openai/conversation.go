package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Conversation is the object of /v1/conversations. Source: OpenAI API reference, "Conversations".
type Conversation struct {
	ID        string          `json:"id"`         // conv_…
	Object    string          `json:"object"`     // conversation
	CreatedAt int64           `json:"created_at"` // Unix seconds
	Metadata  json.RawMessage `json:"metadata"`
}

// ConversationDeleted is the answer of DELETE /v1/conversations/{id}.
type ConversationDeleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // conversation.deleted
	Deleted bool   `json:"deleted"`
}

// ConversationOf is the conversation of a response.
type ConversationOf struct {
	ID string `json:"id"`
}

// maxNewItems is how many items a request may add to a conversation. Source: OpenAI API reference, "Create items".
const maxNewItems = 20

// ConversationRequest is a validated request that creates a conversation, changes one, or adds items to one.
type ConversationRequest struct {
	Items    []InputItem
	Metadata map[string]string
	Ignored  []string // parameters accepted without effect, sorted
}

type rawConversationRequest struct {
	Items    rawItems               `json:"items"`
	Metadata *map[string]metadatum  `json:"metadata"`
	Others   map[string]valuePrefix `json:",embed"`
}

// rawItems is the parameter items.
type rawItems struct{ rawInput }

// UnmarshalJSONFrom accepts a list.
func (in *rawItems) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	in.name = "items"
	switch from.PeekKind() {
	case '[':
		in.set = true
		return in.readItems(from)
	case 'n':
		return from.SkipValue()
	}
	if err := from.SkipValue(); err != nil {
		return err
	}
	return Invalid("invalid_type", "items", "items must be a list of items")
}

// DecodeConversation parses and validates the body of POST /v1/conversations.
func DecodeConversation(body []byte) (*ConversationRequest, error) {
	return Reading{}.Conversation(body)
}

// Conversation is DecodeConversation for another reading.
func (r Reading) Conversation(body []byte) (*ConversationRequest, error) {
	return r.decodeConversation(body, "items", "metadata")
}

// DecodeConversationUpdate is DecodeConversation for POST /v1/conversations/{id}. Without metadata, which null removes,
// there is nothing to change.
func DecodeConversationUpdate(body []byte) (*ConversationRequest, error) {
	return Reading{}.ConversationUpdate(body)
}

// ConversationUpdate is DecodeConversationUpdate for another reading.
func (r Reading) ConversationUpdate(body []byte) (*ConversationRequest, error) {
	req, err := r.decodeConversation(body, "metadata")
	if err != nil {
		return nil, err
	}
	var sent struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := unmarshal(validUTF8(body), &sent); err != nil || sent.Metadata == nil {
		return nil, Invalid("field_required", "metadata", "metadata is required: the new ones, or null for none")
	}
	return req, nil
}

// DecodeConversationItems is DecodeConversation for POST /v1/conversations/{id}/items.
func DecodeConversationItems(body []byte) (*ConversationRequest, error) {
	return Reading{}.ConversationItems(body)
}

// ConversationItems is DecodeConversationItems for another reading.
func (r Reading) ConversationItems(body []byte) (*ConversationRequest, error) {
	req, err := r.decodeConversation(body, "items")
	if err == nil && req.Items == nil {
		return nil, Invalid("field_required", "items", "items is required: a list of items to add")
	}
	return req, err
}

// decodeConversation decodes a body that may have these parameters.
func (r Reading) decodeConversation(body []byte, takes ...string) (*ConversationRequest, error) {
	var raw rawConversationRequest
	if err := decodeBody(body, &raw); err != nil {
		return nil, err
	}
	if raw.Items.set && !slices.Contains(takes, "items") {
		return nil, Invalid("unknown_parameter", "items", "items are added at /v1/conversations/{id}/items")
	}
	if raw.Metadata != nil && !slices.Contains(takes, "metadata") {
		return nil, Invalid("unknown_parameter", "metadata", "metadata belongs to the conversation, not to its items")
	}
	unknown, err := r.checkParams(nil, raw.Others)
	if err != nil {
		return nil, err
	}
	req, err := raw.validate()
	if err == nil {
		req.Ignored = slices.Concat(req.Ignored, unknown)
	}
	return req, err
}

func (raw rawConversationRequest) validate() (_ *ConversationRequest, err error) {
	req := &ConversationRequest{Metadata: map[string]string{}}
	if raw.Metadata != nil {
		if req.Metadata, err = readMetadata(*raw.Metadata); err != nil {
			return nil, err
		}
	}
	if len(raw.Items.items) > maxNewItems {
		return nil, Invalid("invalid_value", "items",
			fmt.Sprintf("items must not hold more than %d items; add the others by further requests", maxNewItems))
	}
	if !raw.Items.set {
		return req, nil
	}
	var items ResponseRequest
	if err := items.addItems(&raw.Items.rawInput); err != nil {
		return nil, err
	}
	if at := len(raw.Items.items) - 1; items.Compaction != nil {
		return nil, unsupported(raw.Items.at(at)+".type",
			fmt.Sprintf("%s: a %s asks for a response; send it as the last item of its input", raw.Items.at(at),
				itemTrigger))
	}
	for _, item := range items.Input {
		if item.Reference != "" {
			return nil, unsupported(item.At, item.At+": a conversation holds no references; send the item itself")
		}
	}
	req.Items, req.Ignored = items.Input, items.Ignored
	return req, nil
}

// Images are the images in the items.
func (req *ConversationRequest) Images() (list []PlacedImage) {
	for _, in := range req.Items {
		for _, p := range in.Images(in.At) {
			p.New = true // an item is kept whole, or refused
			list = append(list, p)
		}
	}
	return list
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
		return Invalid("invalid_value", "conversation", `conversation must be the id of a conversation, or {"id": …}`)
	}
	return nil
}
