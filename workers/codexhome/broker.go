package codexhome

import (
	"maps"
	"net/url"
	"slices"
)

// The values of the key network.
const (
	networkHost  = "host"  // that of the machine
	networkModel = "model" // the model endpoint alone, by the worker's broker
)

func (w *Worker) setNetwork(network string) error {
	switch network {
	case "", networkHost:
	case networkModel:
		if w.Provider == nil {
			return w.problem("network", `network = "model" needs a [provider]`, `remove it, or set network = "host"`)
		}
		if key := w.beyondModel(); key != "" {
			return w.problem("codex."+key, key+` needs a network, and network = "model" leaves none`,
				`remove one of the two, or set network = "host"`)
		}
	default:
		return w.problem("network", "unknown network "+quoted(network), `choose "model" or "host"`)
	}
	w.network = network
	return nil
}

func quoted(text string) string { return `"` + text + `"` }

// Brokered reports whether the worker's broker sends its requests to the provider, and codex has no other network.
func (w *Worker) Brokered() bool {
	return w.Provider != nil && w.Mode != Demo && w.network != networkHost && w.beyondModel() == ""
}

// needsNetwork are the settings of codex by which it, or a program that it starts, may reach other servers.
var needsNetwork = []string{"mcp_servers", "plugins", "marketplaces", "otel", "notify", "hooks", "openai_base_url",
	"chatgpt_base_url", "model_provider", "sandbox_workspace_write.network_access"}

// ofProvider are the settings of a provider, in codex's own table, that the broker takes over or that change nothing
// for it.
var ofProvider = []string{"query_params", "stream_idle_timeout_ms", "request_max_retries", "stream_max_retries", "name"}

// beyondModel is a key of the [codex] table that needs more of a network than the model endpoint; empty: there is none.
func (w *Worker) beyondModel() string {
	for _, key := range needsNetwork {
		if has(w.Extra, key) {
			return key
		}
	}
	if mayConnect(w.Extra) {
		return "permissions"
	}
	providers, _ := w.Extra["model_providers"].(settings)
	for name, value := range providers {
		table, _ := value.(settings)
		for key := range maps.Keys(table) {
			if w.Provider == nil || name != w.Provider.Name || !slices.Contains(ofProvider, key) {
				return "model_providers." + name
			}
		}
	}
	return ""
}

// Query are the parameters that codex adds to the address of the provider.
func (w *Worker) Query() url.Values {
	query := url.Values{}
	if w.Provider == nil {
		return query
	}
	providers, _ := w.Extra["model_providers"].(settings)
	provider, _ := providers[w.Provider.Name].(settings)
	params, _ := provider["query_params"].(settings)
	for name, value := range params {
		if text, ok := value.(string); ok {
			query.Set(name, text)
		}
	}
	return query
}

// through is the worker as codex sees it behind its broker, which is at the address.
func (w *Worker) through(address string) *Worker {
	behind, provider := *w, *w.Provider
	provider.BaseURL, provider.Credential, provider.CAFile = "http://"+address, "", ""
	behind.Provider = &provider
	return &behind
}
