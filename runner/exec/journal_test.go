package exec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/runner/logs"
)

func TestJournalLines(t *testing.T) {
	var written strings.Builder
	j := newJournalLines(&written)
	j.add(logs.Stdout, []byte("on"))
	j.add(logs.Stderr, []byte("two\nthr"))
	j.add(logs.Stdout, []byte("e\n"))
	assert.Equal(t, "two\none\n", written.String())
	j.finish()
	assert.Equal(t, "two\none\nthr\n", written.String())
	written.Reset()
	j.add(logs.Stdout, []byte(strings.Repeat("x", longestLine+1)))
	assert.Len(t, written.String(), longestLine+2, "a line without an end is written in parts")
	j.finish()
	assert.Len(t, written.String(), longestLine+2)
}
