package status

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/versions"
	"codex-proxy/probes"
)

func TestStatusNamesTheCodexThatRuns(t *testing.T) {
	worker := func(name, agent string) probes.Worker {
		return probes.Worker{Name: name, Handshake: &probes.Handshake{UserAgent: agent}}
	}
	var page bytes.Buffer
	writeCodex(&page, []probes.Worker{
		worker("a", "codex-proxy/0.171.0 (Debian 13.0.0; x86_64) unknown (codex-proxy; 0.2.0)"),
		worker("b", "codex-proxy/0.999.0-alpha.2 (Debian)"), worker("c", "codex-proxy/0.171.0 (Debian)"),
		worker("demo", "codex-proxy/demo (0.2.0)"), {Name: "down"},
	}, []string{"0.172.0 is installed"})
	assert.Equal(t, `
codex 0.171.0 runs in a, c: `+versions.Place("0.171.0")+`
codex 0.999.0-alpha.2 runs in b: `+versions.Place("0.999.0")+`
0.172.0 is installed
`, page.String())
	page.Reset()
	writeCodex(&page, []probes.Worker{{Name: "down"}}, nil)
	assert.Empty(t, page.String())
}
