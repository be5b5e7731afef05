package authz

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		message string
		owner   string // "" passes as it is; "-" is dropped; "?" is unknown; else words of the refusal
		viewer  string
	}{
		{`{"id":1,"method":"thread/list","params":{}}`, "", ""},
		{`{"method":"initialized"}`, "", ""},
		{`{"method":"turn/interrupt","params":{}}`, "-", "-"}, // no notification of codex
		{`{"id":1,"method":"initialized"}`, "?", "?"},
		{`{"id":1,"method":"turn/start","params":{}}`, "", "only reads"},
		{`{"id":1,"method":"account/logout"}`, "login of a remote", "login of a remote"},
		{`{"id":1,"method":"account/lo\u0067out"}`, "login of a remote", "login of a remote"},
		{`{"id":1,"method":"account/logout2"}`, "?", "?"},
		{`{"id":1,"method":"config/batchWrite","params":{}}`, "/etc/codex-proxy/remotes", "/etc"},
		{`{"id":1,"method":"thread/start","params":{"config":{}}}`, "", "only reads"},
		{`{"id":1,"method":"thread/start","params":{"config":null}}`, "", "only reads"},
		{`{"id":1,"method":"thread/start","params":{"config":{"features.x":false,"mcp_servers":{ },"tools.a.b":{"x":1},` +
			`"web_search":"disabled"}}}`, "", "only reads"},
		{`{"id":1,"method":"thread/start","params":{"config":{"model_providers.evil.base_url":"http://x"}}}`,
			`"model_providers.evil.base_url"`, "only reads"},
		{`{"id":1,"method":"thread/fork","params":{"config":{"openai_base_url":"http://x"}}}`, "openai_base_url", "only"},
		{`{"id":1,"method":"thread/resume","params":{"config":{"chatgpt_base_url":"x"}}}`, "chatgpt_base_url", ""},
		{`{"id":1,"method":"thread/start","params":{"config":{"model_provider\u0073":{"x":{}}}}}`, "model_provider", "only"},
		{`{"id":1,"method":"thread/start","params":{"c\u006fnfig":{"notify":["x"]}}}`, "config", "only"},
		{`{"id":1,"method":"thread/start","params":{"config":{"mcp_servers":{"x":{"command":"y"}}}}}`, "mcp_servers", "only"},
		{`{"id":1,"method":"thread/start","params":{"config":{},"config":{"hooks":{"x":1}}}}`, "hooks", "only"},
	} {
		m, err := parse([]byte(c.message))
		require.NoError(t, err, c.message)
		for role, want := range map[Role]string{Owner: c.owner, Viewer: c.viewer} {
			v := role.authorize(m, []byte(c.message), nil)
			switch want {
			case "":
				assert.NotNil(t, v.pass, "%v %s: %s", role, c.message, v.refusal)
			case "-":
				assert.Equal(t, verdict{}, v, c.message)
			case "?":
				assert.Equal(t, verdict{unknown: true}, v, c.message)
			default:
				assert.Nil(t, v.pass, "%v %s", role, c.message)
				assert.Contains(t, v.refusal, want, c.message)
			}
		}
	}
}

// A viewer resumes a thread as it is.
func TestJudgeViewersResume(t *testing.T) {
	raw := []byte(`{"id":"x","method":"thread/resume","params":{"sandbox":"danger-full-access","threadId":"t",` +
		`"approvalPolicy":"never","config":{"hooks":{"a":1}},"path":"/etc/passwd","history":[],"cwd":"/","excludeTurns":true}}`)
	m, err := parse(raw)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"x","method":"thread/resume","params":{"threadId":"t","excludeTurns":true}}`,
		string(Viewer.authorize(m, raw, nil).pass))
}

func TestParseRefusesWhatTwoReadersUnderstandInTwoWays(t *testing.T) {
	for _, message := range []string{
		`{"id":1,"method":"thread/list","method":"account/logout"}`,
		`{"id":1,"method":"thread/list","meth\u006fd":"account/logout"}`,
		`{"id":1,"id":2,"method":"thread/list"}`,
		`{"id":1,"method":"thread/list","params":{},"params":{}}`,
		`{"id":null,"method":"thread/list"}`,
		`{"id":{},"method":"thread/list"}`,
		`{"id":1.5,"method":"thread/list"}`,
		`{"id":1,"method":7}`,
		`{"id":1,"method":""}`,
		`{"id":1}`,
		`{}`,
		`[{"id":1,"method":"thread/list"}]`,
		`{"id":1,"method":"thread/list"} {"id":2,"method":"account/logout"}`,
		`{"id":1,"method":"thread/list"`,
		`garbage`,
		``,
	} {
		_, err := parse([]byte(message))
		assert.Error(t, err, message)
	}
}
