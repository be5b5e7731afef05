package shim

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/annotations"
	"codex-proxy/workers/broker"
	"codex-proxy/workers/login"
)

// One connection has one answer. The line of annotations goes on as before.
func TestAside(t *testing.T) {
	ask := func(text string) string {
		s := &Shim{requests: newRequests(), tokens: &login.Tokens{Home: t.TempDir(), Socket: "/nowhere"}}
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() { defer close(done); s.intercept(ours); ours.Close() }()
		go func() { _, _ = theirs.Write([]byte(text)) }()
		answer, _ := io.ReadAll(theirs)
		<-done
		return string(answer)
	}
	assert.Contains(t, ask(broker.QuestionFor(broker.Ask{})+"codex-proxy login\n"), `"code":"unavailable"`)
	assert.Empty(t, ask("codex-proxy nonsense\n"))
	assert.Empty(t, ask("codex-proxy "+strings.Repeat("x", 10<<10)))

	s := &Shim{requests: newRequests()}
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); s.intercept(ours) }()
	out := bufio.NewWriter(theirs)
	_, _ = out.WriteString(annotations.Greeting + "a req_1\n")
	require.NoError(t, out.Flush())
	require.NoError(t, theirs.Close())
	<-done
	assert.Equal(t, "req_1", s.requests.of("a"))
}
