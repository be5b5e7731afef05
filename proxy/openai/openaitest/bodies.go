package openaitest

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Pixel is an image of one pixel.
const Pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// DataURL is a file as a data: URL.
func DataURL(kind string, raw []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(raw)
}

// Repeated joins the n texts that form makes of their indices, which stand for #.
func Repeated(n int, form string) string {
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(form, "#", strconv.Itoa(i)))
	}
	return strings.Join(list, ",")
}

// Nested is a schema of so many objects within each other.
func Nested(levels int) string {
	return strings.Repeat(`{"type":"object","properties":{"a":`, levels) + `{"type":"string"}` +
		strings.Repeat("}}", levels)
}

// AssertReadable fails unless every reader reads the same schema: codex 0.169 does not answer deeper JSON, and reads
// some names as its own.
func AssertReadable(t *testing.T, raw json.RawMessage) (schema map[string]any) {
	t.Helper()
	require.NoError(t, jsonv2.Unmarshal(raw, &schema))
	depth := check(t, schema)
	assert.LessOrEqual(t, depth, 100)
	return schema
}

// check returns how deep v is nested.
func check(t *testing.T, v any) (depth int) {
	t.Helper()
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			assert.False(t, strings.HasPrefix(name, "$serde_json::private::"), name)
			deepest = max(deepest, check(t, inner))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, check(t, inner))
		}
	default:
		return 0
	}
	return deepest + 1
}
