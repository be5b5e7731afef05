package attach

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/modelserver"
)

const question = "Would you like to run the following command?"

// approve says yes until the turn goes on: a TUI drops keys that come as soon as it asks.
func (s *screen) approve() {
	s.t.Helper()
	s.forget()
	for end := time.Now().Add(bound); !s.shows("state=working", time.Second); s.typed("y") {
		require.True(s.t, time.Now().Before(end), "the question stays")
	}
}

// An approval that waits outlives the terminals and the connections of its people: each of them gets it again. The end
// of codex takes it away, and the turn that goes on asks once more. The first answer counts, and the command runs once.
func TestApprovalsComeBack(t *testing.T) {
	b := newBed(t)
	u := newUnit(b)
	b.person()
	u.boot()
	ran := filepath.Join(b.homes, "ran")
	call := fmt.Sprintf(`call exec_command {"cmd":"echo once >>%s","sandbox_permissions":"require_escalated",`+
		`"justification":"MAY I"}`, ran)
	answer := func(step string) { // to the TUI's request for a title, too
		require.NoError(t, b.model.Add(modelserver.Script{Word: "go ahead", Times: -1, Steps: []string{step}}))
	}
	answer(call)
	lost := b.session(u.binary)
	lost.wait("OpenAI Codex")
	lost.ask("go ahead")
	lost.wait(question)
	lost.hangup()

	one, ended := b.tui(u.binary, Attach{})
	one.wait(question)
	two, left := b.tui(u.binary, Attach{})
	two.wait(question)
	for _, s := range []*screen{one, two} {
		s.forget()
	}
	u.cut()
	for _, s := range []*screen{one, two} {
		s.wait(question)
		s.forget()
	}

	u.restart()
	for _, s := range []*screen{one, two} {
		s.wait(question)
	}
	assert.NoFileExists(t, ran)
	answer("text and it has run")
	two.approve()
	for _, s := range []*screen{one, two} {
		s.wait("and it has run")
	}
	two.typed("\x15") // whatever came after the approval
	one.quit(ended)   // its question is gone, or the keys would go there
	two.quit(left)
	text, err := os.ReadFile(ran)
	require.NoError(t, err)
	assert.Equal(t, "once\n", string(text))
}
