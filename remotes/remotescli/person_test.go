package remotescli

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes/transcript"
)

func TestMessage(t *testing.T) {
	for _, words := range [][]string{{"fix", "it"}, {"-", "a"}, {}} {
		got, err := Message(words, strings.NewReader("stdin"))
		require.NoError(t, err)
		assert.Equal(t, strings.Join(words, " "), got)
	}
	got, err := Message([]string{"-"}, strings.NewReader("two\nlines"))
	require.NoError(t, err)
	assert.Equal(t, "two\nlines", got)
	_, err = Message([]string{"-"}, strings.NewReader(strings.Repeat("x", maxMessage+1)))
	assert.ErrorContains(t, err, "too long")
}

// Each question is printed once, also the second one about an item.
func TestScrollPrintsEachQuestion(t *testing.T) {
	var out bytes.Buffer
	s := newScroll(&out)
	show := func(questions ...transcript.Question) string {
		t.Helper()
		out.Reset()
		require.NoError(t, s.show(transcript.Update{Questions: questions}))
		return out.String()
	}
	first := transcript.Question{ID: "1", Text: "run", Directory: "/srv", Decisions: []string{"accept", "decline"}}
	second := transcript.Question{ID: "2", Text: "run\nmore", Reason: "retry", Decisions: []string{"decline"}}
	assert.Equal(t, "waits for approval of 1\n  run\n  in /srv\n", show(first))
	assert.Empty(t, show(first))
	assert.Equal(t, "waits for approval of 2\n  run\n  more\n  retry\n"+
		"  cannot be approved here: codex-proxy attach shows all of it\n", show(first, second))
	assert.Empty(t, show(second))
	for i := range 2 * maxPrinted {
		require.NoError(t, s.show(transcript.Update{Items: []transcript.Item{{ID: strconv.Itoa(i), Text: "x"}}}))
	}
	assert.Len(t, s.printed, maxPrinted)
}
