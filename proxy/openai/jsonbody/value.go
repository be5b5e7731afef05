package jsonbody

import (
	"bytes"
	"encoding/json"
)

func isEmptyValue(v json.RawMessage) bool {
	switch string(bytes.TrimSpace(v)) {
	case "null", "false", "[]", "{}", `""`, `"none"`:
		return true
	}
	return false
}

// IsUnset reports whether a value counts as unset: it is missing, null, false or empty.
func IsUnset(v json.RawMessage) bool { return len(v) == 0 || isEmptyValue(v) }

// IsNull reports whether a value is missing or null.
func IsNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// IsObject reports whether a JSON value is an object.
func IsObject(v json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(v), []byte("{")) }
