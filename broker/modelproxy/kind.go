package modelproxy

import (
	"net/http"
	"strings"
)

// The kinds of requests.
const (
	kindTurn       = "turn"
	kindPrewarm    = "prewarm" // it asks for no answer, and prepares the next request
	kindCompaction = "compaction"
	kindReview     = "review"
	kindMemory     = "memory"
	kindSubagent   = "subagent"
	kindModels     = "models"
	kindImage      = "image"
	kindSearch     = "search"
	kindOther      = "other"
)

// Kinds are all kinds of requests.
var Kinds = []string{kindTurn, kindPrewarm, kindCompaction, kindReview, kindMemory, kindSubagent, kindModels, kindImage,
	kindSearch, kindOther}

// ofMetadata are the kinds by request_kind in the header X-Codex-Turn-Metadata of codex 0.140 and later. A request of a
// subagent is a turn there, and X-OpenAI-Subagent has its kind.
var ofMetadata = map[string]string{"turn": kindTurn, "prewarm": kindPrewarm, "compaction": kindCompaction,
	"memory": kindMemory}

// ofSubagent are the kinds by the header X-OpenAI-Subagent. A label that is not here is another subagent.
var ofSubagent = map[string]string{"review": kindReview, "compact": kindCompaction, "memory_consolidation": kindMemory}

// kindOf is the kind of a request, also of one to the endpoint, whose path may be longer.
func kindOf(r *http.Request) string {
	switch path := strings.TrimPrefix(r.URL.Path, Prefix+"/codex"); {
	case strings.HasSuffix(path, compactPath):
		return kindCompaction
	case strings.Contains(path, "/memories/"):
		return kindMemory
	case strings.HasSuffix(path, "/models"):
		return kindModels
	case strings.Contains(path, "/images/"):
		return kindImage
	case strings.HasSuffix(path, "/search"):
		return kindSearch
	case !strings.HasSuffix(path, "/responses"):
		return kindOther
	}
	kind := ofMetadata[requestKind(r.Header.Get("X-Codex-Turn-Metadata"))]
	if label := r.Header.Get("X-Openai-Subagent"); label != "" && (kind == kindTurn || kind == "") {
		if kind = ofSubagent[label]; kind == "" {
			kind = kindSubagent
		}
	}
	if kind == "" {
		return kindOther
	}
	return kind
}

// requestKind is the value of request_kind. Within a string of JSON the name would have a backslash before its last
// quote.
func requestKind(metadata string) string {
	_, value, _ := strings.Cut(metadata, `"request_kind":"`)
	kind, _, _ := strings.Cut(value, `"`)
	return kind
}
