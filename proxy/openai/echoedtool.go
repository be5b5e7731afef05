package openai

import "encoding/json"

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
	if unmarshal(tool, &raw) != nil { // it has been checked, and is echoed as it came
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
		if tools, err := json.Marshal(echoedTools(raw.Tools)); err == nil {
			added["tools"] = tools
		}
	}
	return withMembers(tool, added)
}

func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// withMembers sets members of an object.
func withMembers(object json.RawMessage, members map[string]json.RawMessage) json.RawMessage {
	if len(members) == 0 {
		return object
	}
	all := map[string]json.RawMessage{}
	if json.Unmarshal(object, &all) != nil {
		return object
	}
	for name, value := range members {
		all[name] = value
	}
	whole, err := json.Marshal(all)
	if err != nil {
		return object
	}
	return whole
}
