package bed

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"codex-proxy/test/machine"
)

const (
	// BedAddr is where a case has the worker killed.
	BedAddr = "127.0.0.1:18081"
	// ClientBound bounds all cases of a client.
	ClientBound = 5 * time.Minute
)

// Python is a bed with clients in Python, whose service requires a key. They are programs
// of the host, in the network of the machine.
type Python struct {
	*Bed
	Venvs, Cases, Key string
	Examples          map[string]string
	Alone             string // the file that a case locks which needs the bed for itself
}

// PythonVenvs is the directory of the Python clients.
func PythonVenvs(t *testing.T) string {
	t.Helper()
	venvs := os.Getenv("CODEX_PROXY_TEST_PYTHON")
	if venvs == "" {
		if os.Getenv(machine.RequireEnv) == "1" {
			t.Fatal("CODEX_PROXY_TEST_PYTHON is not set; `make test` sets it")
		}
		t.Skip("CODEX_PROXY_TEST_PYTHON is not set; `make test` sets it")
	}
	return venvs
}

// Environment has nothing of the host's: the clients find no key, no proxy and no
// settings, and send no telemetry.
func (p *Python) Environment(home, venv string) []string {
	return []string{
		"PATH=" + filepath.Join(p.Venvs, venv, "bin") + ":/usr/bin:/bin", "HOME=" + home, "LANG=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1", "OPENAI_BASE_URL=" + Base + "/v1", "OPENAI_API_KEY=" + p.Key,
		"ANTHROPIC_BASE_URL=" + Base, "ANTHROPIC_API_KEY=" + p.Key, "CODEX_PROXY_KEY=" + p.Key,
		"BED_WORKER=http://" + BedAddr, "BED_ENDPOINT=http://" + ModelAddr, "BED_ALONE=" + p.Alone,
		"BED_EXAMPLE=" + filepath.Join(home, "example"),
		"LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_TELEMETRY=False", "OPENAI_AGENTS_DISABLE_TRACING=1",
		"LANGSMITH_TRACING=false", "AIDER_ANALYTICS=false", "DO_NOT_TRACK=1",
	}
}
