package openai

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestPieces(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("a", MaxDelta), strings.Repeat("a", MaxDelta+1),
		strings.Repeat("é", 5000), "a" + strings.Repeat("𝄞", 5000), strings.Repeat("\xff", 10_000), strings.Repeat("\x80", 10_000)} {
		pieces := slices.Collect(Pieces(text))
		assert.Equal(t, text, strings.Join(pieces, ""))
		assert.LessOrEqual(t, len(pieces), len(text)/(MaxDelta-utf8.UTFMax)+1, "%d bytes", len(text))
		for _, piece := range pieces {
			assert.LessOrEqual(t, len(piece), MaxDelta)
			assert.Equal(t, utf8.ValidString(text), utf8.ValidString(piece))
		}
	}
}
