package jsonschema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
)

// The depth limit of codex also holds for keywords that do not constrain a value.
func TestDepthOfEveryKeyword(t *testing.T) {
	list := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, key := range []string{"title", "$schema", "$id", "$comment", "enum", "default", "const", "examples"} {
		_, err := CheckParameters("p", json.RawMessage(`{"type":"object","`+key+`":`+list(97)+`}`))
		assert.NoError(t, err, key)
		_, err = CheckParameters("p", json.RawMessage(`{"type":"object","`+key+`":`+list(100)+`}`))
		var e *openai.Error
		require.ErrorAs(t, err, &e, key)
		assert.Equal(t, "invalid_schema", e.Code)
		assert.Equal(t, "p."+key, e.Param)
	}
}
