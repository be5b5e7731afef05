package remotes

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// untilGone waits until a text is not on the screen.
func untilGone(t *bed.Terminal, text string) {
	t.Bed.T.Helper()
	for deadline := time.Now().Add(bed.Bound); ; bed.Pause(t.Bed.T.Context(), 100*time.Millisecond) {
		screen := t.Screen()
		if !strings.Contains(screen, text) {
			return
		}
		require.True(t.Bed.T, time.Now().Before(deadline), "still %q in\n%s", text, screen)
	}
}
