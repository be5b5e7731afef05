package codexhome

import (
	"fmt"
	"maps"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// settings is a config.toml of codex as a tree.
type settings = map[string]any

// always are the settings of every worker: no person is there for approvals, only the client keeps answers, and
// only the proxy retries, since it knows which bytes its client has received.
func always() settings {
	return settings{
		"approval_policy":             "never",
		"cli_auth_credentials_store":  "file",
		"check_for_update_on_startup": false,
		"thread_unload_delay_secs":    0, // a loaded thread is 2 MiB, and codex would keep it 30 minutes
		"history":                     settings{"persistence": "none"},
		"analytics":                   settings{"enabled": false},
		"feedback":                    settings{"enabled": false},
		"features":                    settings{"unbounded_connection_retries": false},
	}
}

// bare removes everything that codex would add to a client's own messages.
func bare() settings {
	off := settings{"enabled": false}
	return settings{
		"model_context_window":                    unboundedContext, // see plainModel
		"tool_output_token_limit":                 10000000,
		"web_search":                              "disabled",
		"project_doc_max_bytes":                   0,
		"include_permissions_instructions":        false,
		"include_apps_instructions":               false,
		"include_environment_context":             false,
		"include_collaboration_mode_instructions": false,
		"agents":   off,
		"skills":   settings{"include_instructions": false, "bundled": off},
		"cloud":    settings{"skills": off},
		"tools":    settings{"update_plan": off, "experimental_request_user_input": off},
		"features": allOff(bareFeatures),
	}
}

var bareFeatures = strings.Fields(`apps plugins remote_plugin shell_tool unified_exec goals view_image
	image_generation sleep_tool tool_suggest skill_search hooks shell_snapshot memories browser_use
	computer_use in_app_browser`)

func allOff(features []string) settings {
	off := settings{}
	for _, f := range features {
		off[f] = false
	}
	return off
}

// needed are the settings without which a worker is unsafe or contradicts its file. A codex that lacks any other
// of our settings runs without it.
var needed = map[string]bool{
	"approval_policy": true, "sandbox_mode": true, "cli_auth_credentials_store": true,
	"default_permissions": true, "permissions": true, "shell_environment_policy": true,
	"model": true, "model_provider": true, "model_providers": true, "model_catalog_json": true,
	"features.shell_tool": true, "features.unified_exec": true, "web_search": true,
}

// older has, for a setting that an older codex lacks, its equivalent there (0.140).
var older = map[string]settings{"agents": {"features": settings{"multi_agent": false}}}

// base is the configuration before the [codex] table is merged over it. catalogue is the path of the model
// catalogue, or empty; keyFile the file of the provider's key.
func (w *Worker) base(catalogue, keyFile string) settings {
	if w.remote != nil {
		return w.remote.settings(catalogue)
	}
	c := always()
	if w.Mode == Plain || w.Mode == keeper {
		merge(c, bare())
	}
	switch {
	case w.Hands != nil:
		c["sandbox_mode"] = "danger-full-access" // no command runs here, and a session is the sandbox of the others
	case w.sandbox == nil:
		c["sandbox_mode"] = "read-only" // a profile takes its place where there are tools
	}
	if w.Model != "" {
		c["model"] = w.Model
	}
	if catalogue != "" {
		c["model_catalog_json"] = catalogue
	}
	if w.broker != "" {
		c["model_provider"] = OfAccounts
		p := Provider{Name: OfAccounts, BaseURL: "http://" + w.broker}
		c["model_providers"] = settings{OfAccounts: p.settings("")}
	}
	if w.Provider != nil {
		c["model_provider"] = w.Provider.Name
		c["model_providers"] = settings{w.Provider.Name: w.Provider.settings(keyFile)}
	}
	return c
}

func (p *Provider) settings(keyFile string) settings {
	s := settings{
		"name": p.Name, "base_url": p.BaseURL, "wire_api": "responses",
		"requires_openai_auth": false, "supports_websockets": false,
		"request_max_retries": 0, "stream_max_retries": 0,
	}
	if keyFile != "" {
		// codex runs this for each token, so the key is in no argument list, environment or config file.
		s["auth"] = settings{"command": "/bin/cat", "args": []any{keyFile}}
	}
	return s
}

// config is the content of config.toml: base without the keys unknown to this codex, under the operator's table.
func (w *Worker) config(base settings, unknown []string) settings {
	c := clone(base)
	for _, key := range unknown {
		remove(c, strings.Split(key, "."))
		merge(c, clone(older[key]))
	}
	merge(c, w.extra())
	return c
}

// needsLogin reports whether requests go to OpenAI with the worker's own login.
func needsLogin(c settings) bool {
	name, _ := c["model_provider"].(string)
	if name == "" || name == "openai" {
		return true
	}
	providers, _ := c["model_providers"].(settings)
	provider, _ := providers[name].(settings)
	needs, _ := provider["requires_openai_auth"].(bool)
	return needs
}

func render(file string, c settings) ([]byte, error) {
	body, err := toml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("cannot write config.toml: %w", err)
	}
	head := fmt.Sprintf("# Written by codex-proxy from %s before every start. Edit that file, not this one.\n\n", file)
	return append([]byte(head), body...), nil
}

// merge puts every leaf of over into tree.
func merge(tree, over settings) {
	for key, value := range over {
		below, ok := tree[key].(settings)
		if table, isTable := value.(settings); ok && isTable {
			merge(below, table)
			continue
		}
		tree[key] = value
	}
}

func clone(tree settings) settings {
	c := maps.Clone(tree)
	for key, value := range c {
		if table, ok := value.(settings); ok {
			c[key] = clone(table)
		}
	}
	return c
}

// remove deletes a key, and the tables that become empty.
func remove(tree settings, path []string) {
	if len(path) == 1 {
		delete(tree, path[0])
		return
	}
	if below, ok := tree[path[0]].(settings); ok {
		remove(below, path[1:])
		if len(below) == 0 {
			delete(tree, path[0])
		}
	}
}
