package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
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
		Type        string                         `json:"type"`
		Strict      json.RawMessage                `json:"strict"`
		Parameters  json.RawMessage                `json:"parameters"`
		Description json.RawMessage                `json:"description"`
		Tools       jsonbody.List[json.RawMessage] `json:"tools"`
	}
	if jsonbody.Unmarshal(tool, &raw) != nil { // it has been checked, and is echoed unchanged
		return tool
	}
	added := map[string]json.RawMessage{}
	switch raw.Type {
	case "function":
		if jsonbody.IsNull(raw.Strict) {
			added["strict"] = json.RawMessage("false")
		}
		if jsonbody.IsNull(raw.Parameters) {
			added["parameters"] = json.RawMessage(emptyObject)
		}
	case "namespace":
		if jsonbody.IsNull(raw.Description) {
			added["description"] = json.RawMessage(`""`)
		}
		if tools, err := openai.Encode(echoedTools(raw.Tools)); err == nil {
			added["tools"] = tools
		}
	}
	return withMembers(tool, added)
}

// withMembers adds members to the end of an object, or sets those that it has. Most objects lack them: then nothing of
// it is decoded.
func withMembers(object json.RawMessage, members map[string]json.RawMessage) json.RawMessage {
	var present map[string]jsonbody.ValuePrefix
	if len(members) == 0 || jsonbody.Unmarshal(object, &present) != nil {
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

// rawEcho has the parameters that are ignored and that every copy of the response repeats.
type rawEcho struct {
	MaxToolCalls     *jsonbody.Whole `json:"max_tool_calls"`
	PromptCacheKey   *string         `json:"prompt_cache_key"`
	SafetyIdentifier *string         `json:"safety_identifier"`
	User             *string         `json:"user"`
}

// checkEcho refuses values that OpenAI refuses or that take too much memory, and returns the names of the parameters
// that are set.
func (raw rawEcho) checkEcho() (set []string, err error) {
	if n := raw.MaxToolCalls; n != nil {
		if *n < 1 {
			return nil, openai.Invalid("invalid_value", "max_tool_calls", "max_tool_calls must be at least 1")
		}
		set = append(set, "max_tool_calls")
	}
	for _, text := range []struct {
		name  string
		value *string
	}{
		{"prompt_cache_key", raw.PromptCacheKey}, {"safety_identifier", raw.SafetyIdentifier}, {"user", raw.User},
	} {
		if text.value == nil || *text.value == "" {
			continue
		}
		if err := jsonbody.CheckLengthOf(text.name, *text.value); err != nil {
			return nil, err
		}
		set = append(set, text.name)
	}
	return set, nil
}

// echo repeats parameters of the request in the response. Without a service_tier the response has OpenAI's default.
func (req *Request) echo(r *Response) {
	r.MaxToolCalls, r.PromptCacheKey = (*int64)(req.echoed.MaxToolCalls), req.echoed.PromptCacheKey
	r.SafetyIdentifier, r.User = req.echoed.SafetyIdentifier, req.echoed.User
	r.ServiceTier = cmp.Or(req.tier, "auto")
}
