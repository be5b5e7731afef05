package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// echoedTools are tools as a response repeats them: as the client sent them, with the members that OpenAI's schema
// requires. Typed clients, such as those for PHP, Rust and Kotlin, refuse a function without them.
func echoedTools(sent []json.RawMessage) []json.RawMessage {
	tools := make([]json.RawMessage, 0, len(sent))
	for _, tool := range sent {
		tools = append(tools, echoedTool(tool))
	}
	return tools
}

// emptyObject is the schema of a function that was sent without one.
const emptyObject = `{"type":"object","properties":{}}`

// echoedTool adds the members that are not there. A function that names no strict is not strict here: codex offers it
// so. Some clients have no null for either member.
func echoedTool(tool json.RawMessage) json.RawMessage {
	var raw struct {
		Type        string                       `json:"type"`
		Strict      json.RawMessage              `json:"strict"`
		Parameters  json.RawMessage              `json:"parameters"`
		Description json.RawMessage              `json:"description"`
		Tools       boundedList[json.RawMessage] `json:"tools"`
	}
	if unmarshal(tool, &raw) != nil { // it has been checked, and is echoed unchanged
		return tool
	}
	added := map[string]json.RawMessage{}
	switch raw.Type {
	case "function":
		if isNull(raw.Strict) {
			added["strict"] = json.RawMessage("false")
		}
		if isNull(raw.Parameters) {
			added["parameters"] = json.RawMessage(emptyObject)
		}
	case "namespace":
		if isNull(raw.Description) {
			added["description"] = json.RawMessage(`""`)
		}
		if tools, err := Encode(echoedTools(raw.Tools)); err == nil {
			added["tools"] = tools
		}
	}
	return withMembers(tool, added)
}

func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// withMembers adds members to the end of an object, or sets those that it has. Most objects lack them: then nothing of
// it is decoded.
func withMembers(object json.RawMessage, members map[string]json.RawMessage) json.RawMessage {
	var present map[string]valuePrefix
	if len(members) == 0 || unmarshal(object, &present) != nil {
		return object
	}
	var whole bytes.Buffer
	enc := jsontext.NewEncoder(&whole, jsontext.EscapeForHTML(false), jsontext.AllowDuplicateNames(true))
	dec := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true))
	_, _ = dec.ReadToken() // the object has been read
	err := enc.WriteToken(jsontext.BeginObject)
	for err == nil && dec.PeekKind() == '"' {
		err = copyMember(enc, dec, members)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if _, there := present[name]; !there && err == nil {
			err = errors.Join(enc.WriteToken(jsontext.String(name)), enc.WriteValue(jsontext.Value(members[name])))
		}
	}
	if err = errors.Join(err, enc.WriteToken(jsontext.EndObject)); err != nil {
		return object
	}
	return bytes.TrimSpace(whole.Bytes())
}

// copyMember copies a member of an object, with the value of members if it is there.
func copyMember(enc *jsontext.Encoder, dec *jsontext.Decoder, members map[string]json.RawMessage) error {
	name, err := dec.ReadToken()
	if err != nil {
		return err
	}
	key := name.String()
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if set, ok := members[key]; ok {
		value = jsontext.Value(set)
	}
	return errors.Join(enc.WriteToken(jsontext.String(key)), enc.WriteValue(value))
}
