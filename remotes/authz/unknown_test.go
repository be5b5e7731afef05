package authz

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes/schema"
	"codex-proxy/test/codexes"
)

// A request without a rule passes for an owner alone, and only with the parameters of its schema and of a family of
// which nothing is refused. No schema opens what a rule is on.
func TestUnknownRequests(t *testing.T) {
	reads := map[string][]string{
		"thread/new/list": {"cursor", "threadId"}, "thread/new/read": nil,
		"thread/start": {}, "turn/start": {"threadId", "input"}, "account/logout": {}, // as if they read
		"account/new/read": {}, "accountSession/new/list": {}, "thread/realtime/new/read": {}, "fs/new/list": {}, // closed families
		"secrets/list": {}, "list": {}, "/list": {}, // of no known family
	}
	for message, passes := range map[string]bool{
		`{"id":1,"method":"thread/new/list","params":{"threadId":"t","cursor":null}}`:                true,
		`{"id":1,"method":"thread/new/list"}`:                                                        true,
		`{"id":1,"method":"thread/new/read","params":null}`:                                          true,
		`{"id":1,"method":"thread/new/list","params":{"markRead":true}}`:                             false,
		`{"id":1,"method":"thread/new/list","params":{"thread\u0049d":"t"}}`:                         false,
		`{"id":1,"method":"thread/new/read","params":{"threadId":"t"}}`:                              false,
		`{"method":"thread/new/list","params":{}}`:                                                   false, // a notification
		`{"id":1,"method":"thread/new/list/"}`:                                                       false,
		`{"id":1,"method":"thread/new/LIST"}`:                                                        false,
		`{"id":1,"method":"thread/new/list2"}`:                                                       false,
		`{"id":1,"method":"account/logout"}`:                                                         false,
		`{"id":1,"method":"account/new/read"}`:                                                       false,
		`{"id":1,"method":"accountSession/new/list"}`:                                                false,
		`{"id":1,"method":"thread/realtime/new/read"}`:                                               false,
		`{"id":1,"method":"fs/new/list"}`:                                                            false,
		`{"id":1,"method":"secrets/list"}`:                                                           false,
		`{"id":1,"method":"list"}`:                                                                   false,
		`{"id":1,"method":"/list"}`:                                                                  false,
		`{"id":1,"method":"thread/start","params":{"config":{"mcp_servers":{"x":{"command":"y"}}}}}`: false,
	} {
		m, err := parse([]byte(message))
		require.NoError(t, err, message)
		assert.Equal(t, passes, Owner.authorize(m, []byte(message), reads).pass != nil, message)
		assert.Nil(t, Owner.authorize(m, []byte(message), nil).pass, message)
		assert.Nil(t, Viewer.authorize(m, []byte(message), reads).pass, message)
	}
}

// A refusal says who knows the request, and how to mend it.
func TestWordsOfUnknownRequests(t *testing.T) {
	runs, told := "0.999.1", ""
	p := &Proxy{Version: "7.8", Unknown: func(s Session, method string) string { told = s.Role.String() + " " + method; return runs }}
	owner, viewer := open(t, p, codex(t, echo))
	words := func(socket string) string { return attach(t, socket).call("thread/new/list", `{}`).Error.Message }
	assert.Regexp(t, `^"thread/new/list" is refused: codex-proxy 7.8 knows the requests of codex 0.\d+ to 0.\d+, and this is none `+
		`of them; this remote runs codex 0.999.1: install a codex-proxy that was tested with it, or codex 0.\d+, or .*`+
		`unknown_methods = "read"`, words(owner))
	assert.Equal(t, "owner thread/new/list", told)
	assert.NotContains(t, words(viewer), "unknown_methods")
	assert.Equal(t, "viewer thread/new/list", told)
	runs = "0.169.0"
	assert.Regexp(t, `newer than the codex of this remote may send it: use the remote's version 0.169.0$`, words(owner))

	p = &Proxy{Reads: map[string][]string{"thread/new/list": nil}}
	owner, viewer = open(t, p, codex(t, echo))
	assert.Empty(t, words(owner), "it passes")
	assert.NotEmpty(t, words(viewer))
}

// Judged by its schema alone, as if no rule were on it, no request of the tested codexes passes that no client may send,
// or that is not one to read.
func TestSchemasOfCodex(t *testing.T) {
	passed := map[string]bool{}
	for version, program := range codexes.All(t) {
		found, err := schema.Load(t.Context(), program, os.Args[0], t.TempDir(), func(ctx context.Context, out string) error {
			return exec.CommandContext(ctx, program, "app-server", "generate-json-schema", "--experimental", "--out", out).Run()
		})
		require.NoError(t, err)
		for method := range found {
			others := maps.Clone(rules)
			delete(others, method)
			if r, has := rules[method]; familiesOf(others).open(method) && has {
				assert.NotEqual(t, refused, r.access, "%s of %s", method, version)
				passed[method] = true
			}
		}
	}
	assert.Subset(t, slices.Sorted(maps.Keys(passed)), []string{"app/read", "project/list", "project/read",
		"thread/attachment/list", "thread/backgroundTerminals/list", "thread/goal/get", "thread/loaded/list", "thread/memory/read",
		"thread/queue/list", "thread/read", "thread/timeline/list", "threadSection/list"})
}
