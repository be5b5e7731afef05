package hands

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/modelserver"
)

// BenchmarkOutput compares what 100 MB of output of a command take: executed by codex itself, by its exec-server, and
// by the exec-server behind the relay. The start of codex and of a command is subtracted.
func BenchmarkOutput(b *testing.B) {
	program := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if program == "" {
		b.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	for _, way := range []string{"codex itself", "its exec-server", "behind the relay"} {
		b.Run(way, func(b *testing.B) {
			var all time.Duration
			for range b.N {
				nothing := outputs(b, program, way, "true")
				took := outputs(b, program, way, `head -c 100000000 /dev/zero | tr '\\0' x`)
				all += (took - nothing) / outputCommands
			}
			b.ReportMetric(float64(all.Milliseconds())/float64(b.N), "ms/command")
		})
	}
}

const outputCommands = 5

// outputs has codex run a turn with commands, and returns how long it took.
func outputs(t testing.TB, program, way, command string) time.Duration {
	t.Helper()
	b := newBed(t, program)
	model := modelserver.Start(t, "gpt-5.5")
	for range outputCommands {
		require.NoError(t, model.Script(`call exec_command {"cmd":"`+command+`","login":false,"yield_time_ms":30000}`))
	}
	require.NoError(t, model.Script("text done"))
	address, token := "", ""
	switch way {
	case "its exec-server":
		_, address = execServer(t, program, b.dir)
		token = tokenTest
	case "behind the relay":
		address, token = b.relay(t), tokenOfCodex
	}
	home := filepath.Join(b.dir, "home")
	writeHome(t, home, model, address, token)
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-C", b.dir, "go")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home, "HOME="+home)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return time.Since(began)
}
