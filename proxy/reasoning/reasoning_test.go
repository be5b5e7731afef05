package reasoning

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/history"
)

func TestReasoningFitsItsWorker(t *testing.T) {
	theirs, foreign := history.Reasoning(nil, "theirs"), history.Reasoning(nil, "from elsewhere")
	question := history.TextMessage("user", "q")
	var from Owners
	assert.Empty(t, from.Prefers([]string{"a", "b"}))
	from.Add(theirs, Origin("b"))
	from.Add(foreign, "")
	all := []history.Item{theirs, foreign, question}
	assert.Equal(t, []history.Item{foreign, question}, from.Only([]string{Origin("a"), ""}, all))
	assert.Equal(t, all, from.Only([]string{Origin("b"), ""}, all))
	assert.Equal(t, []history.Item{theirs, question}, from.Only([]string{Origin("a"), Origin("b")}, all))
	assert.Equal(t, []history.Item{question}, from.Only([]string{Origin("a")}, all))
	assert.Equal(t, "b", from.Prefers([]string{"a", "b"}))
	assert.Empty(t, from.Prefers([]string{"a"}))
}

// An origin comes off as it was put on, and text without one is left as it is.
func TestUnmark(t *testing.T) {
	for _, encrypted := range []string{"", "demo", "worker-", "worker-0123456789ab", Origin("a") + Origin("b") + "demo"} {
		origin, rest := Split(Origin("default") + encrypted)
		assert.Equal(t, []string{Origin("default"), encrypted}, []string{origin, rest})
	}
	for _, foreign := range []string{"", "demo", "worker-", "worker-0123456789ab", "worker-0123456789abc"} {
		origin, rest := Split(foreign)
		assert.Equal(t, []string{"", foreign}, []string{origin, rest})
	}
}
