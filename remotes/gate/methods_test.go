package gate

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// schema lists the methods of one file of the schema that the installed codex generates.
func schema(t *testing.T, dir, file string) (methods []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file+".json"))
	require.NoError(t, err)
	var root struct {
		OneOf []struct {
			Properties struct{ Method struct{ Enum []string } }
		}
	}
	require.NoError(t, json.Unmarshal(b, &root))
	for _, one := range root.OneOf {
		methods = append(methods, one.Properties.Method.Enum...)
	}
	require.NotEmpty(t, methods)
	return methods
}

// Every method of codex has a decision here, and every decision is on a method that codex has.
func TestMethodsAreThoseOfCodex(t *testing.T) {
	codex := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if codex == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	dir := t.TempDir()
	out, err := exec.Command(codex, "app-server", "generate-json-schema", "--experimental", "--out",
		dir).CombinedOutput()
	require.NoError(t, err, string(out))

	decided := make([]string, 0, len(rules))
	for _, m := range Methods() {
		decided = append(decided, m.Name)
	}
	assert.ElementsMatch(t, schema(t, dir, "ClientRequest"), decided)
	assert.ElementsMatch(t, schema(t, dir, "ClientNotification"), notifications)
	assert.ElementsMatch(t, schema(t, dir, "ServerRequest"), slices.Concat(withheld, asked))
}

// What changes the login, the configuration or the reach of a remote is refused, whatever codex adds to it.
func TestMethodsThatNoClientMaySend(t *testing.T) {
	for _, m := range Methods() {
		family, verb := m.Name[:strings.LastIndex(m.Name, "/")+1], m.Name[strings.LastIndex(m.Name, "/")+1:]
		switch {
		case family == "remoteControl/", family == "process/", family == "config/" && verb != "read",
			family == "account/login/", verb == "logout", family == "marketplace/", family == "account/gatewayOAuth/" && verb != "read":
			assert.False(t, m.Owners, m.Name)
			assert.NotEmpty(t, m.Refused, m.Name)
		}
		if m.Viewers {
			assert.True(t, m.Owners, m.Name)
			assert.NotContains(t, []string{"start", "set", "update", "delete", "add", "remove", "write", "exec", "login"},
				verb, "%s does not only read", m.Name)
		}
	}
}

func TestMethodsOfTheTUI(t *testing.T) {
	for _, name := range strings.Fields(`initialize account/read model/list hooks/list config/read configRequirements/read
		account/bedrock/checkGovCloudRequirements collaborationMode/list thread/list thread/loaded/list thread/read
		thread/turns/list skills/list plugin/installed thread/resume thread/items/list
		thread/backgroundTerminals/list permissionProfile/list thread/search thread/goal/get account/rateLimits/read
		app/installed`) {
		assert.Equal(t, all, rules[name].access, name)
	}
	for _, name := range strings.Fields(`thread/start turn/start turn/steer turn/interrupt thread/shellCommand
		thread/compact/start command/exec thread/settings/update thread/queue/add`) {
		assert.Equal(t, owners, rules[name].access, name)
	}
}
