package codexhome

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const withProvider = `mode = "plain"
model = "m"
[provider]
name = "x"
base_url = "https://model.test/v1"
credential = "key"
ca_file = "/etc/ssl/x.pem"
`

// A worker with a provider has a broker, unless its settings need more of a network than the endpoint.
func TestBrokered(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "[codex]\nmodel_reasoning_effort = \"low\"\n": true,
		"[codex.model_providers.x]\nstream_idle_timeout_ms = 1\nquery_params = { api-version = \"1\" }\n": true,
		"[codex.model_providers.x]\nhttp_headers = { X = \"y\" }\n":                                       false,
		"[codex.model_providers.other]\nname = \"o\"\n":                                                   false,
		"[codex.mcp_servers.x]\nurl = \"http://x\"\n":                                                     false,
		"[codex.sandbox_workspace_write]\nnetwork_access = true\n":                                        false,
		"[codex.permissions.p.network]\nenabled = true\n":                                                 false,
		"[codex.otel]\nexporter = \"none\"\n":                                                             false,
	} {
		w, err := parse("w.toml", []byte(withProvider+text))
		require.NoError(t, err, text)
		assert.Equal(t, want, Brokered(w), text)
	}
	w, err := parse("w.toml", []byte("network = \"host\"\n"+withProvider))
	require.NoError(t, err)
	assert.False(t, Brokered(w))
	for text, want := range map[string]string{
		"network = \"none\"\n" + withProvider:                                   `w.toml:1: unknown network "none": choose "model" or "host"`,
		"network = \"model\"\nmode = \"plain\"\n":                               `w.toml:1: network = "model" needs a [provider]`,
		"network = \"model\"\n" + withProvider + "[codex]\nnotify = [\"/x\"]\n": `w.toml:10: notify needs a network, and network = "model" leaves none`,
	} {
		_, err := parse("w.toml", []byte(text))
		assert.ErrorContains(t, err, want)
	}
}

// Behind its broker codex knows neither the endpoint nor its key.
func TestThroughTheBroker(t *testing.T) {
	w, err := parse("w.toml", []byte(withProvider+"[codex.model_providers.x]\nquery_params = { api-version = \"1\" }\n"))
	require.NoError(t, err)
	behind := through(w, "127.0.0.1:1")
	p := &preparation{Home: &Home{}, worker: behind}
	file, err := p.keyFile()
	require.NoError(t, err)
	provider := behind.base("", file)["model_providers"].(settings)["x"].(settings)
	assert.Equal(t, "http://127.0.0.1:1", provider["base_url"])
	assert.NotContains(t, provider, "auth")
	assert.Equal(t, "1", Query(w).Get("api-version"))
	assert.Equal(t, "https://model.test/v1", w.Provider.BaseURL)
}

// A unit that was made of another text of the file does not start codex without a network.
func TestUnitOfAnotherText(t *testing.T) {
	plain, err := parse("w.toml", []byte("mode = \"plain\"\n"))
	require.NoError(t, err)
	_, err = behindBroker(&Home{File: "w.toml", Broker: "127.0.0.1:1"}, plain)
	assert.ErrorContains(t, err, "w.toml: the unit has no network, and these settings need one: `systemctl daemon-reload`")
	w, err := parse("w.toml", []byte(withProvider))
	require.NoError(t, err)
	note := ""
	same, err := behindBroker(&Home{Note: func(line string) { note = line }}, w)
	require.NoError(t, err)
	assert.Same(t, w, same)
	assert.Contains(t, note, "systemctl daemon-reload")
}
