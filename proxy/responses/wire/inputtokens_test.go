package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai/jsonbody"
)

func TestDecodeInputTokens(t *testing.T) {
	req, err := DecodeInputTokens([]byte(`{"input":"q","stream":true,"store":true,"personality":"friendly"}`), jsonbody.Reading{})
	require.NoError(t, err)
	assert.Empty(t, req.Model)
	assert.False(t, req.Stream)
	assert.Nil(t, req.Store)
	assert.Equal(t, []string{"personality"}, req.Ignored)
	_, err = Decode([]byte(`{"model":"m","input":"q","personality":"friendly"}`), jsonbody.Reading{})
	require.Error(t, err)
}
