package conversation

import (
	"crypto/sha256"
	"encoding/json"
)

// digest stands for a text.
type digest [16]byte

func digestOf(parts ...[]byte) (d digest) {
	h := sha256.New()
	for _, part := range parts {
		size := len(part)
		_, _ = h.Write([]byte{byte(size), byte(size >> 8), byte(size >> 16), byte(size >> 24)}) // a hash takes all
		_, _ = h.Write(part)
	}
	copy(d[:], h.Sum(nil))
	return d
}

// item is an item that the endpoint has: one of a request, by its text, or one of an answer, by its essence.
type item struct {
	digest digest
	output bool
}

// known is the part of a conversation that the endpoint has, with a response.
type known struct {
	properties digest
	items      []item
	response   string
}

// before returns how many items of a request the endpoint has; negative: the request is no continuation.
func (k *known) before(q *request) int {
	if k.properties != q.properties || len(k.items) >= len(q.items) {
		return -1
	}
	for i, has := range k.items {
		d, ok := q.digests[i], true
		if has.output {
			d, ok = essence(q.items[i])
		}
		if !ok || d != has.digest {
			return -1
		}
	}
	return len(k.items)
}

// essences are the members by which codex and the endpoint know an item of an answer, by its type. codex sends an item
// again in a form of its own: without the state, the identifier, the annotations, and all that it does not know.
var essences = map[string][]string{
	"message":          {"role", "content"},
	"reasoning":        {"encrypted_content", "summary"},
	"function_call":    {"name", "namespace", "arguments", "call_id"},
	"custom_tool_call": {"name", "namespace", "input", "call_id"},
	"local_shell_call": {"action", "call_id"},
	"web_search_call":  {"action"},
}

// ofContent are the members that matter of a part of a message, or of a summary.
var ofContent = []string{"type", "text", "refusal"}

// essence is the digest of the essence of an answer's item. It reports false for a type that it does not know.
func essence(text []byte) (digest, bool) {
	var whole map[string]any
	if json.Unmarshal(text, &whole) != nil {
		return digest{}, false
	}
	kind, _ := whole["type"].(string)
	names, known := essences[kind]
	if !known {
		return digest{}, false
	}
	left := only(whole, names)
	for _, name := range []string{"content", "summary"} {
		parts, _ := left[name].([]any)
		for i, part := range parts {
			if p, is := part.(map[string]any); is {
				parts[i] = only(p, ofContent)
			}
		}
	}
	left["type"] = kind
	made, err := json.Marshal(left) // in the order of the names
	return digestOf(made), err == nil
}

// only is the part of an object with these names. An empty value is as none.
func only(whole map[string]any, names []string) map[string]any {
	left := map[string]any{}
	for _, name := range names {
		value, has := whole[name]
		list, isList := value.([]any)
		if has && value != nil && value != "" && (!isList || len(list) > 0) {
			left[name] = value
		}
	}
	return left
}
