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
	from.Add(theirs, Mark("b"))
	from.Add(foreign, "")
	all := []history.Item{theirs, foreign, question}
	assert.Equal(t, []history.Item{foreign, question}, from.Only([]string{Mark("a"), ""}, all))
	assert.Equal(t, all, from.Only([]string{Mark("b"), ""}, all))
	assert.Equal(t, []history.Item{theirs, question}, from.Only([]string{Mark("a"), Mark("b")}, all))
	assert.Equal(t, []history.Item{question}, from.Only([]string{Mark("a")}, all))
	assert.Equal(t, "b", from.Prefers([]string{"a", "b"}))
	assert.Empty(t, from.Prefers([]string{"a"}))
}

// A mark comes off as it was put on, and text without one is left as it is.
func TestUnmark(t *testing.T) {
	for _, encrypted := range []string{"", "demo", "worker-", "worker-0123456789ab", Mark("a") + Mark("b") + "demo"} {
		mark, rest := Unmark(Mark("default") + encrypted)
		assert.Equal(t, []string{Mark("default"), encrypted}, []string{mark, rest})
	}
	for _, foreign := range []string{"", "demo", "worker-", "worker-0123456789ab", "worker-0123456789abc"} {
		mark, rest := Unmark(foreign)
		assert.Equal(t, []string{"", foreign}, []string{mark, rest})
	}
}
