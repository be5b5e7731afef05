package authz

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/codexschema"
)

// Every method of each codex of the tests has a decision here, and every decision is on a method that one of them has.
func TestMethodsAreThoseOfCodex(t *testing.T) {
	decided := make([]string, 0, len(rules))
	for _, m := range Methods() {
		decided = append(decided, m.Name)
	}
	schemas := codexschema.Generate(t)
	delete(schemas, "0.140.0") // too old for remotes
	for file, decided := range map[string][]string{
		"ClientRequest": decided, "ClientNotification": notifications, "ServerRequest": slices.Concat(withheld, asked),
	} {
		known := map[string]bool{}
		for version, dir := range schemas {
			for _, method := range codexschema.Methods(t, dir, file) {
				known[method] = true
				assert.True(t, slices.Contains(decided, method), "%s of codex %s has no decision", method, version)
			}
		}
		for _, method := range decided {
			assert.True(t, known[method], "no codex has %s", method)
		}
	}
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
