package turn_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
)

const accountHeader = "X-Codex-Account"

// accountRig has the workers a, b and c, which answer with their names. Worker a alone has
// the model only-a.
func accountRig(t *testing.T, keys *auth.Keys, changes ...func(*apitest.Options)) *apitest.Rig {
	t.Helper()
	others := map[string]*appservertest.Server{}
	for _, name := range []string{"a", "b", "c"} {
		models := []appservertest.Model{{ID: "demo"}, {ID: "only-" + name}}
		others[name] = &appservertest.Server{Handler: appservertest.Reply("by " + name), Models: models}
	}
	r := apitest.NewRig(t, nil, append(changes, func(o *apitest.Options) { o.Keys, o.Others = keys, others })...)
	apitest.Await(t, apitest.Tick(t), func() bool { return len(r.Pool.Models()) == 4 })
	return r
}

// accountCase is a choice with a key of accountKeys.
type accountCase struct {
	name   string
	key    int
	header string
	by     string // the worker that serves; empty: any, or an error
	status int
	code   string
	words  string
}

var accountCases = []accountCase{
	{name: "no restriction, no choice", key: 0, status: 200},
	{name: "may not choose", key: 0, header: "a", status: 403, code: "account_choice_not_allowed", words: "--choose-account"},
	{name: "may not choose one of its own", key: 1, header: "a", status: 403, code: "account_choice_not_allowed"},
	{name: "restricted to one", key: 2, by: "b", status: 200},
	{name: "chooses", key: 3, header: "c", by: "c", status: 200},
	{name: "chooses none", key: 3, status: 200},
	{name: "chooses among its own", key: 4, header: "b", by: "b", status: 200},
	{name: "chooses another's", key: 4, header: "c", status: 400, code: "unknown_account", words: "use one of a, b"},
	{name: "an unknown one", key: 4, header: "d", status: 400, code: "unknown_account", words: `no account "d" for this request; use one of a, b`},
	{name: "an empty one", key: 3, header: "", status: 200},
	{name: "two", key: 3, header: "a, b", status: 400, code: "unknown_account", words: "use one of a, b, c"},
	{name: "its accounts are gone", key: 5, status: 403, code: "account_not_found", words: "the accounts x, y alone"},
	{name: "some of its accounts are gone", key: 6, by: "c", status: 200},
}

var accountKeys = []string{
	"free", "two accounts=a,b", "one accounts=b", "chooser choose-account=yes", "both accounts=a,b choose-account=yes",
	"orphan accounts=x,y choose-account=yes", "half accounts=x,c",
}

// A key uses its accounts alone, and chooses among them if it may. The answer has the
// account that served it, for a key that may choose.
func TestAccountsOfAKey(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, accountKeys...)
	r := accountRig(t, keys)
	requests := map[string]struct{ path, body string }{
		"chat":          {"/v1/chat/completions", apitest.Hello("")},
		"streamed chat": {"/v1/chat/completions", apitest.Hello(apitest.Streaming)},
		"completion":    {"/v1/completions", `{"model":"demo","prompt":"hello"}`},
		"response":      {"/v1/responses", `{"model":"demo","input":"hello","store":false}`},
		"choices":       {"/v1/chat/completions", apitest.Hello(`"n":2,`)},
	}
	for _, tc := range accountCases {
		for kind, request := range requests {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				header := []string{"Authorization", "Bearer " + secrets[tc.key]}
				if tc.header != "" {
					header = append(header, accountHeader, tc.header)
				}
				for range 3 { // would go to the least loaded, in turn
					resp := r.Do(t, http.MethodPost, request.path, request.body, header...)
					body := apitest.Text(t, resp)
					require.Equal(t, tc.status, resp.StatusCode, body)
					if tc.status != 200 {
						e := apitest.Failure(t, body).Error
						assert.Equal(t, tc.code, e.Code)
						assert.Contains(t, e.Message, tc.words)
						continue
					}
					assert.Contains(t, body, "by "+tc.by)
					served := resp.Header.Get(accountHeader)
					if mayChoose := slices.Contains([]int{3, 4}, tc.key); !mayChoose {
						assert.Empty(t, served)
					} else if kind != "streamed chat" || served != "" {
						assert.Contains(t, body, "by "+served)
					}
				}
			})
		}
	}
	assert.Equal(t, "30", apitest.Metric(t, r, `codex_key_refused_total{key="both",limit="accounts"}`))
	assert.Equal(t, "15", apitest.Metric(t, r, `codex_key_refused_total{key="free",limit="choose-account"}`))
}

// A program on this machine may choose while the API is open.
func TestAccountChoiceWithoutKeys(t *testing.T) {
	r := accountRig(t, nil)
	for _, name := range []string{"a", "b", "c"} {
		resp := r.Chatting(t, apitest.Hello(""), accountHeader, name)
		assert.Contains(t, apitest.Text(t, resp), "by "+name)
		assert.Equal(t, name, resp.Header.Get(accountHeader))
	}
	resp := r.Chatting(t, apitest.Hello(""), accountHeader, "d")
	assert.Equal(t, "unknown_account", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
}

// The models are those of the accounts that the key may use, or has chosen.
func TestModelsOfAccounts(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, accountKeys...)
	r := accountRig(t, keys)
	for _, tc := range []struct {
		key    int
		header string
		want   []string
	}{
		{0, "", []string{"demo", "only-a", "only-b", "only-c"}},
		{1, "", []string{"demo", "only-a", "only-b"}},
		{2, "", []string{"demo", "only-b"}},
		{4, "a", []string{"demo", "only-a"}},
	} {
		header := []string{"Authorization", "Bearer " + secrets[tc.key]}
		if tc.header != "" {
			header = append(header, accountHeader, tc.header)
		}
		var list openai.ModelList
		require.NoError(t, json.Unmarshal([]byte(apitest.Text(t, r.Do(t, http.MethodGet, "/v1/models", "", header...))), &list))
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		assert.Equal(t, tc.want, ids)
		for _, id := range []string{"only-a", "only-b", "only-c"} {
			want := http.StatusNotFound
			if slices.Contains(tc.want, id) {
				want = http.StatusOK
			}
			got := r.Do(t, http.MethodGet, "/v1/models/"+id, "", header...)
			assert.Equal(t, want, got.StatusCode, "%v %s", tc, id)
			resp := r.Chatting(t, `{"model":"`+id+`","messages":[{"role":"user","content":"x"}]}`, header...)
			body := apitest.Text(t, resp)
			assert.Equal(t, want, resp.StatusCode, body)
			if want == http.StatusNotFound {
				e := apitest.Failure(t, body).Error
				assert.Equal(t, "model_not_found", e.Code)
				assert.NotContains(t, e.Message, "did you mean "+id)
			}
		}
	}
}

// The header of the handshake holds for the connection, as long as the key may choose.
func TestAccountOfAWebSocket(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, accountKeys...)
	r := accountRig(t, keys)
	bearer := "Bearer " + secrets[4]
	_, resp, err := r.Upgrade(t, "Authorization", bearer, accountHeader, "c")
	require.Error(t, err)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	k := r.Socket(t, "Authorization", bearer, accountHeader, "b")
	const create = `{"type":"response.create","model":"demo","store":false,"input":"hello"}`
	for range 3 {
		k.Say(create)
		k.Response()
	}
	assert.Equal(t, "3", apitest.Metric(t, r, `codex_usage_account_requests_total{account="b"}`))
	require.NoError(t, keys.Replace(strings.ReplaceAll(keys.Text(), "choose-account=yes", "")))
	k.Say(create)
	ended := k.Response()
	assert.Equal(t, "error", ended.Type)
	assert.Equal(t, "1", apitest.Metric(t, r, `codex_key_refused_total{key="both",limit="choose-account"}`))
}

// A conversation whose thread is on another account does not lead there.
func TestAffinityStaysWithinTheAccounts(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, accountKeys...)
	r := accountRig(t, keys, func(o *apitest.Options) { o.ThreadCache = 8 })
	conversation := `{"model":"demo","messages":[{"role":"user","content":"hello"}`
	ask := func(body, account string) string {
		resp := r.Chatting(t, body, "Authorization", "Bearer "+secrets[3], accountHeader, account)
		return apitest.Text(t, resp)
	}
	require.Contains(t, ask(conversation+`]}`, "a"), "by a")
	more := conversation + `,{"role":"assistant","content":"by a"},{"role":"user","content":"more"}]}`
	assert.Contains(t, ask(more, "b"), "by b")
	assert.Contains(t, ask(more, "a"), "by a")
	require.Equal(t, "1", apitest.Metric(t, r, `codex_thread_reuse_total{outcome="hit"}`), "only on its own account")
}

// A page of an allowed origin may choose, and read which account served it.
func TestAccountChoiceOfAPage(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, accountKeys...)
	const origin = "https://app.example"
	r := accountRig(t, keys, func(o *apitest.Options) { o.CORSOrigins = []string{origin} })
	asked := r.Do(t, http.MethodOptions, "/v1/chat/completions", "", "Origin", origin,
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,x-codex-account")
	assert.Contains(t, asked.Header.Get("Access-Control-Allow-Headers"), "x-codex-account")
	resp := r.Chatting(t, apitest.Hello(""), "Origin", origin, "Authorization", "Bearer "+secrets[3], accountHeader, "b")
	assert.Contains(t, resp.Header.Get("Access-Control-Expose-Headers"), accountHeader)
	assert.Equal(t, "b", resp.Header.Get(accountHeader))
}
