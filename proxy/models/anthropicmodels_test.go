package models_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/modelname"
	"codex-proxy/workers/dispatch"
)

// page is a page of models in Anthropic's form.
type page struct {
	IDs         []string
	First, Last string
	More        bool
}

func readPage(t *testing.T, text string) (p page) {
	t.Helper()
	var list struct {
		Data []struct {
			Type, ID  string
			Name      string `json:"display_name"`
			CreatedAt string `json:"created_at"`
		}
		HasMore bool    `json:"has_more"`
		FirstID *string `json:"first_id"`
		LastID  *string `json:"last_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &list), text)
	for _, m := range list.Data {
		p.IDs = append(p.IDs, m.ID)
		assert.Equal(t, []string{"model", m.ID, "2025-04-16T00:00:00Z"}, []string{m.Type, m.Name, m.CreatedAt})
	}
	if p.More = list.HasMore; list.FirstID != nil {
		p.First, p.Last = *list.FirstID, *list.LastID
	}
	return p
}

// A client of Anthropic's API gets the models in its form, and page by page.
func TestModelsInAnthropicsForm(t *testing.T) {
	r, secrets := modelRig(t, &appservertest.Server{})
	header := append([]string{"X-Api-Key", secrets[0]}, apitest.AnthropicVersion...)
	for query, want := range map[string]page{
		"":                             {[]string{"gpt-5", "gpt-5-mini", "org/tiny", "fast", "gpt-5-high"}, "gpt-5", "gpt-5-high", false},
		"limit=1000":                   {[]string{"gpt-5", "gpt-5-mini", "org/tiny", "fast", "gpt-5-high"}, "gpt-5", "gpt-5-high", false},
		"limit=2":                      {[]string{"gpt-5", "gpt-5-mini"}, "gpt-5", "gpt-5-mini", true},
		"limit=2&after_id=gpt-5-mini":  {[]string{"org/tiny", "fast"}, "org/tiny", "fast", true},
		"limit=2&after_id=fast":        {[]string{"gpt-5-high"}, "gpt-5-high", "gpt-5-high", false},
		"limit=2&after_id=gpt-5-high":  {},
		"limit=2&before_id=gpt-5-high": {[]string{"org/tiny", "fast"}, "org/tiny", "fast", true},
		"limit=2&before_id=org%2Ftiny": {[]string{"gpt-5", "gpt-5-mini"}, "gpt-5", "gpt-5-mini", false},
		"before_id=gpt-5":              {},
		"lifecycle=retired":            {},
		"lifecycle[]=active":           {[]string{"gpt-5", "gpt-5-mini", "org/tiny", "fast", "gpt-5-high"}, "gpt-5", "gpt-5-high", false},
	} {
		t.Run(query, func(t *testing.T) {
			resp := r.Do(t, http.MethodGet, "/v1/models?"+query, "", header...)
			assert.NotEmpty(t, resp.Header.Get("Request-Id"))
			assert.Equal(t, want, readPage(t, apitest.Text(t, resp)))
		})
	}
	for query, words := range map[string]string{"limit=0": "between 1 and 1000", "limit=1001": "between 1 and 1000",
		"limit=x": "between 1 and 1000", "after_id=gone": "after_id must be the id", "before_id=x": "before_id must be"} {
		resp := r.Do(t, http.MethodGet, "/v1/models?"+query, "", header...)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, query)
		kind, message, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
		assert.Equal(t, "invalid_request_error", kind)
		assert.Contains(t, message, words)
	}
	assert.JSONEq(t, `{"type":"model","id":"org/tiny","display_name":"org/tiny","created_at":"2025-04-16T00:00:00Z",
		"lifecycle":"active","line":null,"capabilities":null,"max_input_tokens":null,"max_tokens":null,
		"deprecated_at":null,"retires_at":null}`, apitest.Text(t, r.Do(t, http.MethodGet, "/v1/models/org/tiny", "", header...)))
	header[1] = secrets[1]
	assert.Equal(t, page{[]string{"org/tiny", "gpt-5-high"}, "org/tiny", "gpt-5-high", false},
		readPage(t, apitest.Text(t, r.Do(t, http.MethodGet, "/v1/models", "", header...))))
	unready := apitest.NewRig(t, nil)
	resp := unready.Do(t, http.MethodGet, "/v1/models", "", apitest.AnthropicVersion...)
	assert.Equal(t, 529, resp.StatusCode)
}

// A model without a worker: the answer names the setting, and no model that the key may not
// use. Claude Code shows the message of a 400 alone.
func TestUnmappedModel(t *testing.T) {
	const line = `"claude-*" = { model = "gpt-5" } below [models.aliases] in /etc/codex-proxy/config.toml`
	missing := proxy.Route{Method: http.MethodPost, Path: "/v1/messages/missing/{model...}", Access: proxy.Keyed,
		Form: proxy.Anthropic, Handler: func(_ http.ResponseWriter, r *http.Request, x *proxy.Exchange) error {
			x.Model = r.PathValue("model")
			return dispatch.ErrNoModel
		}}
	keys, secrets := apitest.WithKeys(t, "all", "some models=claude-*,gpt-5-mini", "few models=gpt-5,org/tiny", "own models=claude-*")
	r := apitest.NewRig(t, &appservertest.Server{Models: catalogue()}, func(o *apitest.Options) {
		o.Keys, o.Route = keys, &missing
		o.Aliases = map[string]modelname.Alias{"lost-*": {Model: "gpt-4"}, "claude-opus-4-5": {Model: "gpt-5"}}
	})
	for _, tc := range []struct {
		key     int
		model   string
		words   []string
		without string
	}{
		{0, "claude-sonnet-5", []string{"the model `claude-sonnet-5` cannot be used: ", line, "systemctl reload codex-proxy",
			"there are gpt-5, gpt-5-mini, org/tiny"}, "secret"},
		{0, "sonnet", []string{`add the line "sonnet" = { model = "gpt-5" }`}, ""},
		{0, "claude-opus-4.5", []string{"did you mean claude-opus-4-5? Else map it", line}, ""},
		{0, "lost-1", []string{`no ready worker has the model that "lost-*" has in [models.aliases]`}, "gpt-4"},
		{1, "claude-sonnet-5", []string{`"claude-*" = { model = "gpt-5-mini" }`, "there are gpt-5-mini"}, "tiny"},
		{2, "claude-sonnet-5", []string{"this API key may not use it; the key may use gpt-5, org/tiny"}, "mini"},
		{3, "claude-sonnet-5", []string{`"claude-*" = { model = "MODEL" }`, "GET /v1/models lists"}, "gpt"},
	} {
		t.Run(fmt.Sprint(tc.key, " ", tc.model), func(t *testing.T) {
			for agent, status := range map[string]int{"curl/8": 404, "claude-cli/2.1.330 (external, cli)": 400} {
				resp := r.Do(t, http.MethodPost, "/v1/messages/missing/"+tc.model, "", "X-Api-Key", secrets[tc.key],
					"User-Agent", agent)
				assert.Equal(t, status, resp.StatusCode)
				kind, message, _ := apitest.AnthropicFailure(t, apitest.Text(t, resp))
				assert.Equal(t, map[int]string{404: "not_found_error", 400: "invalid_request_error"}[status], kind)
				for _, words := range tc.words {
					assert.Contains(t, message, words)
				}
				if tc.without != "" {
					assert.NotContains(t, message, tc.without)
				}
			}
		})
	}
	resp := r.Do(t, http.MethodGet, "/v1/models/claude", "", append([]string{"X-Api-Key", secrets[0], "User-Agent",
		"claude-cli/2.1.330"}, apitest.AnthropicVersion...)...)
	assert.Equal(t, http.StatusNotFound, resp.StatusCode, "the path is another one")
}
