package jsonschema

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai/openaitest"
)

// The memory for a strict form, all of it added up, is small beside the schema of a hostile client. The number of
// allocations stands for the time as well.
func TestStrictFormsOfHostileSchemasCostLittle(t *testing.T) {
	for name, schema := range map[string]string{
		"many required properties": `{"type":"object","properties":{` + openaitest.Repeated(3000, `"p#":{"const":1}`) +
			`},"required":[` + openaitest.Repeated(3000, `"p#"`) + `]}`,
		"one definition in many alternatives": `{"oneOf":[` + openaitest.Repeated(2000, `{"$ref":"%/$defs/A"}`) +
			`],"$defs":{"A":{"type":"object","description":"` + strings.Repeat("x", 100_000) + `"}}}`,
		"a long chain of copies": `{"type":"object","properties":{"a":{"$ref":"%/$defs/A0"}},"$defs":{` +
			chainOfCopies(2000) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			schema := json.RawMessage(strings.ReplaceAll(schema, "%", "#"))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := NewFormat("at", "n", "", schema, false)
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
		})
	}
}

// chainOfCopies are n definitions, each with a copy of the next one.
func chainOfCopies(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"A%d":{"anyOf":[{"$ref":"#/$defs/A%d","title":"x"}]}`, i, i+1))
	}
	return strings.Join(append(list, fmt.Sprintf(`"A%d":{"type":"string"}`, n)), ",")
}

// A strict form is no deeper than a schema may be, as codex does not answer a message that is too deep.
func TestStrictFormsAreNoDeeperThanSchemas(t *testing.T) {
	for n, enforced := range map[int]bool{10: true, 60: false, 2000: false} {
		format, err := NewFormat("at", "n", "", json.RawMessage(
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A0","title":"x"}},"$defs":{`+chainOfCopies(n)+`}}`), false)
		require.NoError(t, err)
		assert.Equal(t, enforced, format.Schema != nil, n)
		assert.Equal(t, enforced, format.Instruction == "", n)
	}
}

// A schema that is too large for a form is not copied.
func TestLargeSchemasAreNotCopied(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"$defs":{"A":{"description":"` +
		strings.Repeat("x", 8<<20) + `"}}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, ok := strictForm(schema)
	runtime.ReadMemStats(&after)
	assert.False(t, ok)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

// A form keeps to the limits of the strict subset.
func TestStrictFormsKeepToTheLimits(t *testing.T) {
	for name, schema := range map[string]string{
		"long text in a long enum": `{"type":"object","properties":{"a":{"enum":[` +
			openaitest.Repeated(251, `"`+strings.Repeat("x", 60)+`#"`) + `]}}}`,
		"many keywords": `{"type":"object",` + openaitest.Repeated(300, `"a#":1`) + `,"allOf":[{` + openaitest.Repeated(300, `"b#":1`) +
			`,"properties":{"a":{"type":"string"}}}]}`,
	} {
		_, _, ok := strictForm(json.RawMessage(schema))
		assert.False(t, ok, name)
	}
	_, _, ok := strictForm(json.RawMessage(`{"type":"object","properties":{"a":{"enum":[` +
		openaitest.Repeated(250, `"`+strings.Repeat("x", 60)+`#"`) + `]}}}`))
	assert.True(t, ok)
}
