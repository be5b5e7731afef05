package appserver

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/jsonscan"
)

// Numbers of the model endpoint neither give tokens back nor overflow a sum.
func TestUsageAtItsExtremes(t *testing.T) {
	for number, want := range map[int64]int64{
		0: 0, 7: 7, -1: 0, math.MinInt64: 0, maxTokens + 1: maxTokens, math.MaxInt64: maxTokens,
	} {
		var p tokenUsageParams
		text := fmt.Sprintf(`{"tokenUsage":{"total":{"inputTokens":%[1]d,"cachedInputTokens":%[1]d,"outputTokens":%[1]d,`+
			`"reasoningOutputTokens":%[1]d,"totalTokens":%[1]d}}}`, number)
		require.NoError(t, jsonscan.Scan([]byte(text), &p))
		all := Usage{want, want, want, want, want}
		assert.Equal(t, all, p.TokenUsage.Total, number)
		assert.Equal(t, Usage{}, Usage{}.plus(all, -1), number)
		most := inRange(2 * want)
		assert.Equal(t, Usage{most, most, most, most, most}, all.Plus(all), number)
	}
}
