package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai/jsonbody"
)

func TestDecodeCompact(t *testing.T) {
	req, err := DecodeCompact([]byte(`{"model":"m","input":"q","instructions":"Be kind.","reasoning":{"effort":"low"},
		"prompt_cache_key":"k","tools":[{"type":"function","name":"f"}],"text":{"verbosity":"low"},"stream":false}`), jsonbody.Reading{})

	require.NoError(t, err)
	assert.Equal(t, "Be kind.", *req.Instructions)
	assert.Equal(t, "low", req.Reasoning.Effort)
	assert.Equal(t, "k", req.CacheKey())
	assert.Equal(t, []string{"prompt_cache_key", "text", "tools"}, req.Ignored)
	assert.Empty(t, req.Tools.Offered)
	_, err = DecodeCompact([]byte(`{"model":"m","input":"q","prompt_cache_key":"`+strings.Repeat("k", 2000)+`"}`), jsonbody.Reading{})
	require.Error(t, err)
	_, err = DecodeCompact([]byte(`{"input":"q"}`), jsonbody.Reading{})
	require.Error(t, err)
	_, err = DecodeCompact([]byte(`[]`), jsonbody.Reading{})
	require.Error(t, err)
}
