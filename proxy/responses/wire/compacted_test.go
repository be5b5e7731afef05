package wire

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
