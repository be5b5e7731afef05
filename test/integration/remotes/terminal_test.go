package remotes

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// untilGone waits until a text is not on the screen.
func untilGone(t *bed.Terminal, text string) {
	t.Bed.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(t.Bed.T.Context()) {
		screen := t.Screen()
		if !strings.Contains(screen, text) {
			return
		}
		require.True(t.Bed.T, time.Now().Before(deadline), "still %q in\n%s", text, screen)
	}
}
