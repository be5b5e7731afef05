package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// The codex CLI sends a request again whose answer broke off, on both transports, and reports an error that another
// attempt would meet again.
func TestCodexFaults(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker, "")
	b.Start()
	for _, tc := range []struct {
		name  string
		steps []string // of the first answer; the next one is whole
		want  string   // in the output
		tries int
	}{
		{"cut", []string{"text so far", "drop"}, "fine now", 2},
		{"failed", []string{"text so far", "failed server_error oops"}, "fine now", 2},
		{"rate limit", []string{"text so far", "failed rate_limit_exceeded Please try again in 1s."}, "fine now", 2},
		{"usage limit", []string{"text so far", "failed usage_limit_reached The usage limit has been reached"},
			"Quota exceeded", 1},
		{"too long", []string{"text so far", "failed context_length_exceeded x"}, "ran out of room", 1},
		{"refused", []string{"text so far", "failed invalid_prompt not this"}, "not this", 1},
	} {
		for _, sockets := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/websockets=%t", tc.name, sockets), func(t *testing.T) {
				home := fmt.Sprintf("/root/cli-%s-%t", strings.ReplaceAll(tc.name, " ", "-"), sockets)
				config := strings.Replace(fmt.Sprintf(bed.CliConfig, bed.Model, sockets), "stream_max_retries = 0",
					"stream_max_retries = 1", 1)
				require.NoError(t, b.WriteFile(home+"/config.toml", []byte(config), 0o600))
				require.NoError(t, b.Models.Script(tc.steps...))
				before := len(b.Models.Turns())
				if tc.tries > 1 {
					require.NoError(t, b.Models.Script("text fine now"))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*bed.Bound)
				defer cancel()
				stdout, stderr, err := b.Run(ctx, "env", "CODEX_HOME="+home, bed.CodexDir+"/bin/codex", "exec",
					"--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", "/tmp", "hello")
				assert.Equal(t, tc.tries > 1, err == nil, "%s", stderr)
				assert.Contains(t, stdout+stderr, tc.want)
				assert.Equal(t, tc.tries, len(b.Models.Turns())-before, "requests at the endpoint")
			})
		}
	}
}
