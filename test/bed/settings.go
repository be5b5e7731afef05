package bed

import (
	"strings"
	"time"

	"codex-proxy/test/await"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// PlainWorker is a worker that uses OpenAI with its own login.
const PlainWorker = "mode = \"plain\"\ncodex_path = \"" + CodexDir + "/bin/codex\"\n"

// RealWorker is a worker file for the real codex and the scripted endpoint.
const RealWorker = `mode = "plain"
codex_path = "` + CodexDir + `/bin/codex"
model = "` + Model + `"
[provider]
name = "scripted"
base_url = "http://` + ModelAddr + `/v1"
`

// Patient has requests wait for a worker for as long as its restart takes on a busy
// machine.
const Patient = "ready_timeout = \"1m\"\n"

func (b *Bed) configure(worker, config string) {
	b.T.Helper()
	require.NoError(b.T, b.WriteFile(KeyFile, nil, 0o600))
	require.NoError(b.T, b.WriteFile(WorkerFile, []byte(worker), 0o644))
	if config != "" {
		require.NoError(b.T, b.WriteFile(ConfigFile, []byte(config), 0o644))
	}
}

// ConfigFile has the settings of the service.
const ConfigFile = "/etc/codex-proxy/config.toml"

// AssertRefuses asserts that the unit runs, and was not started repeatedly. It ends by itself after some seconds, and
// ask starts it again.
func AssertRefuses(b *Bed, unit, why string, ask func()) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		v := b.Properties(unit, "ActiveState", "StatusText")
		if v["ActiveState"] == "active" && strings.Contains(v["StatusText"], "Refuses all: ") {
			break
		}
		require.True(b.T, time.Now().Before(deadline), "%v", v)
		ask()
	}
	assert.Contains(b.T, b.UnitJournal(unit), why)
	assert.Less(b.T, strings.Count(b.UnitJournal(unit), "Starting "),
		20) // once every few seconds, and not for each of the 40
}

// NativeWorker is RealWorker with codex's own tools.
func NativeWorker() string { return strings.Replace(RealWorker, "plain", "native", 1) }
