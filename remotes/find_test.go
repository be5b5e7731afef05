package remotes

import (
	"math"
	"testing"

	"codex-proxy/remotes/codexthread"

	"github.com/stretchr/testify/assert"
)

// The number is one that codex has read from a file, so it may be anything.
func TestUsed(t *testing.T) {
	for updated, want := range map[int64]string{
		1800000000:    ", used 2027-01-15 08:00 UTC",
		1800000000000: ", used 2027-01-15 08:00 UTC",
		0:             "",
		math.MinInt64: "",
		math.MaxInt64: ", used 2262-04-11 23:47 UTC",
	} {
		assert.Equal(t, want, used(codexthread.Thread{Updated: updated}), updated)
	}
}
