package jsonbody

import (
	"bytes"
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Content is a string or a list of parts.
type Content struct {
	Set   bool
	Text  string
	Parts json.RawMessage // the value, if it is no string
}

// UnmarshalJSONFrom accepts both forms of content. Parts are decoded later, message by message, so that the first
// invalid one ends the work.
func (c *Content) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	kind := from.PeekKind()
	c.Set = kind != 'n'
	if kind == '"' {
		return jsonv2.UnmarshalDecode(from, &c.Text)
	}
	data, err := from.ReadValue()
	if c.Set {
		c.Parts = bytes.Clone(data)
	}
	return err
}
