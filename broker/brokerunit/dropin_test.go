package brokerunit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const worker = `mode = "plain"
model = "m"
[provider]
name = "x"
base_url = "https://model.test/v1"
`

// generate returns the drop-ins of a worker's unit and of its broker; empty: there is none.
func generate(t *testing.T, file string, operator map[string]string) (ofWorker, ofBroker string) {
	t.Helper()
	settings, units, dir := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(settings, "w.toml"), []byte(file), 0o600))
	for name, text := range operator {
		name = filepath.Join(units, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	require.NoError(t, Generate(settings, units, dir))
	read := func(unit string) string {
		text, err := os.ReadFile(filepath.Join(dir, unit+".d", "zz-broker.conf"))
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		return string(text)
	}
	return read("codex-worker@w.service"), read("codex-broker@w.service")
}

// The broker gets the key, and what determines the way of requests; codex keeps its other credentials.
func TestGenerate(t *testing.T) {
	ofWorker, ofBroker := generate(t, worker+"credential = \"key\"\nca_file = \"/etc/ssl/a b%.pem\"\n", map[string]string{
		"codex-worker@w.service.d/override.conf": "[Unit]\nLoadCredential=no:/x\n[Service]\nLoadCredential=key:/etc/key\n" +
			"LoadCredential = other:/etc/other\nMemoryMax=1G\n",
		"codex-worker@.service.d/proxy.conf": "[Service]\nEnvironment=A=1\nEnvironment=\nEnvironment=HTTPS_PROXY=http://p:1 \\\n  B=2\n",
	})
	assert.Contains(t, ofWorker, "Requires=codex-broker@w.socket\nWants=codex-broker@w.service\n"+
		"After=codex-broker@w.socket codex-broker@w.service\n[Service]\nPrivateNetwork=yes\n"+
		"BindReadOnlyPaths=/run/codex-broker/w.sock:/run/codex-worker/w/broker.sock\n"+
		"Environment=CODEX_MODEL_BROKER=/run/codex-worker/w/broker.sock\nLoadCredential=\nLoadCredential=other:/etc/other\n")
	assert.Contains(t, ofBroker, "[Service]\nUser=cb-w\nLoadCredential=key:/etc/key\nSetCredential=key:no file\n"+
		"LoadCredential=provider-authorities:/etc/ssl/a b%%.pem\nSetCredential=provider-authorities:no file\n"+
		"Environment=HTTPS_PROXY=http://p:1    B=2\n")
	assert.NotContains(t, ofBroker, "MemoryMax")
}

// A worker keeps the network of the machine if its settings need one, or its key is nowhere.
func TestGenerateNothing(t *testing.T) {
	for name, file := range map[string]string{
		"login": "mode = \"plain\"\n", "demo": "mode = \"demo\"\n", "host": "network = \"host\"\n" + worker,
		"fault": worker + "x = 1\n", "no key": worker + "credential = \"key\"\n",
		"server": worker + "[codex.mcp_servers.x]\nurl = \"http://x\"\n",
	} {
		ofWorker, ofBroker := generate(t, file, nil)
		assert.Empty(t, ofWorker+ofBroker, name)
	}
}

// A file with the same name for one worker takes the place of the one for all.
func TestDropInOfOneWorker(t *testing.T) {
	_, ofBroker := generate(t, worker, map[string]string{
		"codex-worker@.service.d/a.conf":  "[Service]\nEnvironment=A=all\n",
		"codex-worker@w.service.d/a.conf": "[Service]\nEnvironment=A=one\n",
	})
	assert.Contains(t, ofBroker, "A=one")
	assert.NotContains(t, ofBroker, "A=all")
}
