package attach

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const question = "Would you like to run the following command?"

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
	require.NoError(t, b.model.Script(call))
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

	require.NoError(t, b.model.Script(call))
	u.restart()
	for _, s := range []*screen{one, two} {
		s.wait(question)
	}
	assert.NoFileExists(t, ran)
	require.NoError(t, b.model.Always("gpt-5.5", "text and it has run"))
	two.typed("y")
	for _, s := range []*screen{one, two} {
		s.wait("and it has run")
	}
	one.quit(ended) // its question is gone, or the keys would go there
	two.quit(left)
	text, err := os.ReadFile(ran)
	require.NoError(t, err)
	assert.Equal(t, "once\n", string(text))
}
