package proxy

import (
	"strings"

	"codex-proxy/proxy/openai"
)

// azurePrefix begins the paths of Azure OpenAI: /openai/v1/…, /openai/deployments/MODEL/… and, with ?api-version=,
// /openai/responses and the like. Source: Azure OpenAI REST API reference.
const azurePrefix = "/openai/"

// canonical is the path in the table that is meant by a path which is not there, and the model that the path names;
// both are the path itself and empty where none is meant. Only paths of the API are meant by another: what an operator
// keeps from clients by the path of a probe, of /metrics or of a remote stays so.
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

// ofAzure is the path of OpenAI's API for one of Azure, without the prefix; empty: there is none.
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
