package modelproxy

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKinds(t *testing.T) {
	for _, tc := range []struct{ want, method, path, metadata, subagent string }{
		{kindTurn, http.MethodPost, "/responses", `{"turn_id":"1","request_kind":"turn","sandbox":"seccomp"}`, ""},
		{kindReview, http.MethodPost, "/responses", `{"request_kind":"turn","subagent_kind":"review"}`, "review"},
		{kindCompaction, http.MethodPost, "/responses", `{"request_kind":"compaction","compaction":{"trigger":"auto"}}`, ""},
		{kindCompaction, http.MethodPost, "/responses", `{"request_kind":"compaction"}`, "review"},
		{kindCompaction, http.MethodPost, "/responses/compact", "", ""},
		{kindPrewarm, http.MethodPost, "/backend-api/codex/responses", `{"request_kind":"prewarm"}`, ""},
		{kindSubagent, http.MethodPost, "/responses", `{"request_kind":"turn"}`, "collab_spawn"},
		{kindMemory, http.MethodPost, "/responses", "", "memory_consolidation"},
		{kindMemory, http.MethodPost, "/memories/trace_summarize", "", ""},
		{kindModels, http.MethodGet, "/models", "", ""},
		{kindImage, http.MethodPost, "/images/edits", "", ""},
		{kindSearch, http.MethodPost, "/alpha/search", "", ""},
		{kindOther, http.MethodPost, "/responses", "", ""},
		{kindOther, http.MethodPost, "/responses", `{"request_kind":"later"}`, ""},
		{kindOther, http.MethodPost, "/responses", `{"workspaces":{"/\"request_kind\":\"turn\"":{}}}`, ""},
		{kindOther, http.MethodGet, "/wham/usage", "", ""},
	} {
		r := httptest.NewRequest(tc.method, tc.path, http.NoBody)
		r.Header.Set("X-Codex-Turn-Metadata", tc.metadata)
		r.Header.Set("X-OpenAI-Subagent", tc.subagent)
		assert.Equal(t, tc.want, kindOf(r), tc)
		assert.Contains(t, Kinds, kindOf(r))
	}
}
