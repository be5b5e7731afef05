package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCompacted(t *testing.T) {
	for _, want := range []Compacted{
		{Summary: "s"},
		{Summary: "é \"\n\u2028", Standing: []string{"Be brief.", ""}},
	} {
		content, ok := want.Encode()
		require.True(t, ok)
		got, why := decodeCompacted(content)
		assert.Empty(t, why)
		assert.Equal(t, want.Summary, got.Summary)
		assert.Equal(t, want.Standing, got.Standing)
		for i := range content { // any byte that is changed is noticed
			changed := []byte(content)
			changed[i] ^= 4
			if got, why := decodeCompacted(string(changed)); why == "" {
				assert.Equal(t, want.Summary, got.Summary, "the last bits of base64 are of no effect")
				assert.Equal(t, len(content)-1, i)
			}
			_, why := decodeCompacted(content[:i])
			assert.NotEmpty(t, why)
		}
	}
}

// A content that nobody but an attacker makes cannot take many times its size.
func TestCompactedIsBounded(t *testing.T) {
	var many Compacted
	for i := range 100 {
		many.Standing = append(many.Standing, strconv.Itoa(i))
	}
	content, ok := many.Encode()
	require.True(t, ok)
	got, why := decodeCompacted(content)
	require.Empty(t, why)
	require.Len(t, got.Standing, maxStanding)
	assert.True(t, strings.HasPrefix(got.Standing[0], "0\n\n1\n\n2"))
	assert.Equal(t, "99", got.Standing[maxStanding-1])

	data := []byte(`{"standing":[""` + strings.Repeat(`,""`, 1000) + `]}`)
	sum := sha256.Sum256(data)
	_, why = decodeCompacted(compactedHead + base64.RawURLEncoding.EncodeToString(append(sum[:checksumSize], data...)))
	assert.NotEmpty(t, why)
	_, ok = Compacted{Summary: strings.Repeat("a", MaxCompacted)}.Encode()
	assert.False(t, ok)
	_, why = decodeCompacted(compactedHead + strings.Repeat("A", MaxCompacted))
	assert.NotEmpty(t, why)
}

func TestDecodeCompact(t *testing.T) {
	req, err := DecodeCompact([]byte(`{"model":"m","input":"q","instructions":"Be kind.","reasoning":{"effort":"low"},
		"prompt_cache_key":"k","tools":[{"type":"function","name":"f"}],"text":{"verbosity":"low"},"stream":false}`))
	require.NoError(t, err)
	assert.Equal(t, "Be kind.", *req.Instructions)
	assert.Equal(t, "low", req.Reasoning.Effort)
	assert.Equal(t, "k", req.CacheKey())
	assert.Equal(t, []string{"prompt_cache_key", "text", "tools"}, req.Ignored)
	assert.Empty(t, req.Tools.Offered)
	_, err = DecodeCompact([]byte(`{"model":"m","input":"q","prompt_cache_key":"` + strings.Repeat("k", 2000) + `"}`))
	require.Error(t, err)
	_, err = DecodeCompact([]byte(`{"input":"q"}`))
	require.Error(t, err)
	_, err = DecodeCompact([]byte(`[]`))
	require.Error(t, err)
}

func TestDecodeInputTokens(t *testing.T) {
	req, err := DecodeInputTokens([]byte(`{"input":"q","stream":true,"store":true,"personality":"friendly"}`))
	require.NoError(t, err)
	assert.Empty(t, req.Model)
	assert.False(t, req.Stream)
	assert.Nil(t, req.Store)
	assert.Equal(t, []string{"personality"}, req.Ignored)
	_, err = DecodeResponse([]byte(`{"model":"m","input":"q","personality":"friendly"}`))
	require.Error(t, err)
}
