package proxy

import (
	"strings"

	"codex-proxy/proxy/openai"
)

// azurePrefix begins the paths of Azure OpenAI: /openai/v1/…, /openai/deployments/MODEL/… and, with ?api-version=,
// /openai/responses and the like. Source: Azure OpenAI REST API reference.
const azurePrefix = "/openai/"

// canonical is the path in the table for another form of it, and the model that the path names; if the path has no
// other form, it is the path itself, without a model. Only paths of the API have other forms: a probe, /metrics or a
// remote that an operator keeps from clients by its path stays so.
func (rs routes) canonical(path string) (meant, model string) {
	if !strings.HasSuffix(path, "/") && !strings.HasPrefix(path, azurePrefix) || rs.has(path) {
		return path, ""
	}
	meant = strings.TrimRight(path, "/")
	if rest, azure := strings.CutPrefix(meant, azurePrefix); azure {
		if meant, model = ofAzure(rest); strings.HasPrefix(meant, "/v1/messages") || len(model) > openai.MaxModelName {
			return path, ""
		}
	}
	if strings.HasPrefix(meant, "/v1/") && !strings.HasPrefix(meant, "/v1/remotes") && rs.has(meant) {
		return meant, model
	}
	return path, ""
}

// ofAzure is the path of OpenAI's API for one of Azure, without the prefix; empty: OpenAI's API has no such path.
func ofAzure(rest string) (path, model string) {
	deployed, ok := strings.CutPrefix(rest, "deployments/")
	if !ok {
		return "/v1/" + strings.TrimPrefix(rest, "v1/"), ""
	}
	model, rest, _ = strings.Cut(deployed, "/")
	for _, has := range ofDeployments {
		if rest == has || strings.HasPrefix(rest, has+"/") {
			return "/v1/" + rest, model
		}
	}
	return "", ""
}

// ofDeployments are the paths below a deployment, those that are not served included.
var ofDeployments = []string{"chat/completions", "completions", "embeddings", "audio", "images"}

// has reports whether a route of the API has the path.
func (rs routes) has(path string) bool {
	for _, rt := range rs {
		if _, ok := rt.match(path); ok && rt.Access == Keyed && !rt.WebSocket {
			return true
		}
	}
	return false
}
