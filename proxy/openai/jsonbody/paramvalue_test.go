package jsonbody

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only the values that are checked are kept.
func TestKeptValues(t *testing.T) {
	var fields map[string]ValuePrefix
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	require.NoError(t, json.Unmarshal([]byte(`{"user":`+long+`,"other":`+long+`}`), &map[string]any{}))
	require.NoError(t, Unmarshal([]byte(`{"user":`+long+`,"other":`+long+`}`), &fields))
	assert.Len(t, fields["user"], maxValue)
	assert.Len(t, fields["other"], 16)
}
