package appserver

import (
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lenient is JSON as encoding/json reads it.
var lenient = jsonv2.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// Decode decodes the fields of the item that v has.
func (i ResponseItem) Decode(v any) error { return jsonv2.Unmarshal(i.Item, v, lenient) }
