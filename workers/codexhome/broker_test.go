package codexhome

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const withProvider = `network = "model"
mode = "plain"
model = "m"
[provider]
name = "x"
base_url = "https://model.test/v1"
credential = "key"
ca_file = "/etc/ssl/x.pem"
`

// A worker has a broker by its key network alone, and no settings that need more of a network than the endpoint.
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
		assert.Equal(t, want, err == nil && w.Brokered, text)
		if !want {
			assert.ErrorContains(t, err, `network = "model" leaves none`, text)
		}
		for _, network := range []string{"", "network = \"host\"\n"} {
			w, err := parse("w.toml", []byte(strings.Replace(withProvider, "network = \"model\"\n", network, 1)+text))
			require.NoError(t, err, text)
			assert.False(t, w.Brokered, text)
		}
	}
	for text, want := range map[string]string{
		"network = \"none\"\nmode = \"plain\"\n":                                           `w.toml:1: unknown network "none": choose "model" or "host"`,
		"network = \"model\"\nmode = \"plain\"\n[codex.model_providers.x]\nname = \"x\"\n": `model_providers.x needs a network`,
		"connections = 8\nmode = \"plain\"\n":                                              `w.toml:1: connections bounds what a broker does, and this worker has none`,
		"connections = -1\n" + withProvider:                                                `w.toml:1: connections = -1 is no bound: give a number from 1 to 1024`,
		withProvider + "[codex]\nnotify = [\"/x\"]\n":                                      `w.toml:10: notify needs a network, and network = "model" leaves none`,
	} {
		_, err := parse("w.toml", []byte(text))
		assert.ErrorContains(t, err, want)
	}
}

func TestConnections(t *testing.T) {
	w, err := parse("w.toml", []byte("connections = 8\n"+withProvider))
	require.NoError(t, err)
	assert.Equal(t, 8, w.Connections)
}

// Lines in the path of ca_file would be lines of a unit that root starts.
func TestAuthoritiesInAUnit(t *testing.T) {
	_, err := parse("w.toml", []byte(strings.Replace(withProvider, "x.pem", `x\n[Service]`, 1)))
	assert.ErrorContains(t, err, "w.toml:8: provider.ca_file: ")
}

// codex sends to Azure what only Azure needs.
func TestAzureBehindTheBroker(t *testing.T) {
	text := strings.Replace(withProvider, "model.test", "corp.OpenAI.Azure.com/openai", 1)
	w, err := parse("w.toml", []byte(text+"[codex.model_providers.x]\nname = \"y\"\n"))
	require.NoError(t, err)
	behind := through(w, "127.0.0.1:1")
	provider := behind.config(behind.base("", ""), nil)["model_providers"].(settings)["x"].(settings)
	assert.Equal(t, "azure", provider["name"])
	assert.Equal(t, "y", w.extra()["model_providers"].(settings)["x"].(settings)["name"])
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
	_, err = behindBroker(&Home{}, w)
	assert.ErrorContains(t, err, `w.toml:1: network = "model", and the unit still has the network of the machine: `+
		"`systemctl daemon-reload`")

	// codex would have the key by a drop-in that the generator does not know.
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), nil, 0o600))
	_, err = behindBroker(&Home{Worker: "w", Broker: "127.0.0.1:1", Credentials: dir}, w)
	assert.ErrorContains(t, err, `w.toml:7: codex would have the key, the credential "key": give it by LoadCredential= of `+
		"`systemctl edit codex-worker@w`")
}

// With a login that another unit keeps, codex knows no login, and no endpoint but its broker; it lists the same models.
func TestLoginApart(t *testing.T) {
	w, err := parse("w.toml", []byte("network = \"model\"\nmode = \"native\"\n"))
	require.NoError(t, err)
	assert.True(t, w.LoginApart())
	assert.True(t, w.NeedsLogin())
	dir := t.TempDir()
	behind, err := behindBroker(&Home{Worker: "w", Dir: dir, Broker: "127.0.0.1:1"}, w)
	require.NoError(t, err)
	config := behind.config(behind.base("", ""), nil)
	assert.False(t, needsLogin(config))
	provider := config["model_providers"].(settings)[config["model_provider"].(string)].(settings)
	assert.Equal(t, "http://127.0.0.1:1", provider["base_url"])
	assert.False(t, behind.hasCatalogue())

	for _, name := range loginNames {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		_, err = behindBroker(&Home{Worker: "w", Dir: dir, Broker: "127.0.0.1:1"}, w)
		assert.ErrorContains(t, err, "codex would have the login in "+filepath.Join(dir, name))
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}

	keeps := &Home{Worker: "w", Keeps: true}
	kept, err := keeps.role(w)
	require.NoError(t, err)
	assert.True(t, needsLogin(kept.config(kept.base("", ""), nil)))
	onHost, err := parse("w.toml", []byte("mode = \"native\"\n"))
	require.NoError(t, err)
	_, err = keeps.role(onHost)
	assert.ErrorContains(t, err, "the worker keeps its login itself")
}
