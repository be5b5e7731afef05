package conversations

import (
	"encoding/json"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/responses/wire"
)

// Conversation is the object of /v1/conversations. Source: OpenAI API reference, "Conversations".
type Conversation struct {
	ID        string          `json:"id"`         // conv_…
	Object    string          `json:"object"`     // conversation
	CreatedAt int64           `json:"created_at"` // Unix seconds
	Metadata  json.RawMessage `json:"metadata"`
}

// Deleted is the answer of DELETE /v1/conversations/{id}.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // conversation.deleted
	Deleted bool   `json:"deleted"`
}

// Request is a validated request that creates a conversation, changes one, or adds items to one.
type Request struct {
	Items    []wire.InputItem
	Metadata map[string]string
	Ignored  []string // parameters accepted without effect, sorted
}

type rawRequest struct {
	Items    wire.NewItems                   `json:"items"`
	Metadata *map[string]jsonbody.Metadatum  `json:"metadata"`
	Others   map[string]jsonbody.ValuePrefix `json:",embed"`
}

// DecodeNew parses and validates the body of POST /v1/conversations.
func DecodeNew(body []byte, r jsonbody.Reading) (*Request, error) {
	return decode(body, r, "items", "metadata")
}

// DecodeUpdate is DecodeNew for POST /v1/conversations/{id}. Without metadata, which null removes,
// there is nothing to change.
func DecodeUpdate(body []byte, r jsonbody.Reading) (*Request, error) {
	req, err := decode(body, r, "metadata")
	if err != nil {
		return nil, err
	}
	var sent struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := jsonbody.Unmarshal(jsonbody.ValidUTF8(body), &sent); err != nil || sent.Metadata == nil {
		return nil, openai.Invalid("field_required", "metadata", "metadata is required: the new ones, or null for none")
	}
	return req, nil
}

// DecodeItems is DecodeNew for POST /v1/conversations/{id}/items.
func DecodeItems(body []byte, r jsonbody.Reading) (*Request, error) {
	req, err := decode(body, r, "items")
	if err == nil && req.Items == nil {
		return nil, openai.Invalid("field_required", "items", "items is required: a list of items to add")
	}
	return req, err
}

// decode decodes a body that may have these parameters.
func decode(body []byte, r jsonbody.Reading, takes ...string) (*Request, error) {
	var raw rawRequest
	if err := jsonbody.Decode(body, &raw); err != nil {
		return nil, err
	}
	if raw.Items.Set() && !slices.Contains(takes, "items") {
		return nil, openai.Invalid("unknown_parameter", "items", "items are added at /v1/conversations/{id}/items")
	}
	if raw.Metadata != nil && !slices.Contains(takes, "metadata") {
		return nil, openai.Invalid("unknown_parameter", "metadata",
			"metadata belongs to the conversation, not to its items")
	}
	unknown, err := r.CheckParams(nil, raw.Others)
	if err != nil {
		return nil, err
	}
	req, err := raw.validate()
	if err == nil {
		req.Ignored = slices.Concat(req.Ignored, unknown)
	}
	return req, err
}

func (raw rawRequest) validate() (_ *Request, err error) {
	req := &Request{Metadata: map[string]string{}}
	if raw.Metadata != nil {
		if req.Metadata, err = jsonbody.ReadMetadata(*raw.Metadata); err != nil {
			return nil, err
		}
	}
	req.Items, req.Ignored, err = raw.Items.Read()
	return req, err
}

// Images are the images in the items.
func (req *Request) Images() (list []media.PlacedImage) {
	for _, in := range req.Items {
		for _, p := range in.Images(in.At) {
			p.New = true // an item is kept whole, or refused
			list = append(list, p)
		}
	}
	return list
}
