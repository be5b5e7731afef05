package codexhome

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/internal/strict"
)

// Attended is the mode of a codex that people attach to: it asks them, keeps their threads, and repeats its own
// requests. No worker file has it.
const Attended Mode = "attended"

// Remote has the settings of the home of a remote.
type Remote struct {
	File      string // of the remote
	Text      []byte // of the file, or a hash of it
	Lines     strict.Lines
	CodexPath string // empty: search for it
	Model     string
	Models    []string // further ones
	Provider  string   // its name; empty: accounts
	BaseURL   string   // of the server that lends its key, or the logins of accounts, as codex reaches it
	KeyName   string   // the variable with the key for that server
	Directory string
	Write     bool // the tools may write to Directory and Writable
	Writable  []string
	Hands     string         // the text of environments.toml, by which commands are executed elsewhere; empty: here
	Extra     map[string]any // the [codex] table
}

// PrepareRemote makes the home of a remote ready for codex. Runtime/codex becomes a link to the program to run. Errors
// are the same as for Prepare.
func (h *Home) PrepareRemote(ctx context.Context, r Remote) error {
	if err := checkOwner(h.Dir); err != nil {
		return err
	}
	if err := h.clear(); err != nil {
		return err
	}
	h.boundTraces()
	w := r.worker()
	program, err := h.program(w)
	if err == nil {
		inputs := h.inputs(r.Text, program, r.Directory)
		if !h.fresh(inputs) {
			p := preparation{h, w, codex{path: program, home: h.Dir, dir: r.Directory}}
			err = p.renew(ctx, inputs)
		}
	}
	if err != nil {
		return h.discard(err)
	}
	if err := writeEnvironments(h.Dir, r.Hands); err != nil {
		return h.discard(err)
	}
	if err := os.MkdirAll(h.Runtime, 0o700); err != nil {
		return fmt.Errorf("cannot make the runtime directory: %w", err)
	}
	return link(program, filepath.Join(h.Runtime, "codex"))
}

// writeEnvironments writes the file that names where codex executes commands into its home, or removes the one of an
// earlier start.
func writeEnvironments(dir, text string) error {
	path := filepath.Join(dir, environmentsName)
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("cannot remove the environments of an earlier start: %w", err)
	}
	if text == "" {
		return nil
	}
	return writeFile(path, []byte(text))
}

// clear removes everything but regular files from the paths of files that this program reads. A tool of a remote writes
// to the home: a pipe in place of the configuration would hold up every start.
func (h *Home) clear() error {
	for _, path := range []string{h.configFile(), h.catalogueFile(), h.authFile()} {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().IsRegular() {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("cannot remove %s, which is no file: %w", path, err)
		}
	}
	return nil
}

func (r Remote) worker() *Worker {
	w := &Worker{
		File: r.File, Mode: Attended, CodexPath: r.CodexPath, Model: r.Model, Extra: r.Extra, lines: r.Lines, remote: &r,
	}
	if r.Provider != "" {
		w.Provider = &Provider{Name: r.Provider, BaseURL: r.BaseURL, Models: r.Models}
	}
	return w
}

// OfAccounts is the name of the provider by which codex uses accounts. With the name OpenAI, codex would compress its
// requests, which the model proxy reads, and have threads summed up in a form that no other account can read.
const OfAccounts = "accounts"

// settings are the configuration of codex before the [codex] table is merged over it.
func (r *Remote) settings(catalogue string) settings {
	c := settings{
		"approval_policy":             "on-request",
		"sandbox_mode":                "read-only",
		"cli_auth_credentials_store":  "file",
		"check_for_update_on_startup": false,
		"thread_unload_delay_secs":    0, // of threads that neither run nor wait
		"analytics":                   settings{"enabled": false},
		"feedback":                    settings{"enabled": false},
		// The operator has named the directory.
		"projects":                 settings{r.Directory: settings{"trust_level": "trusted"}},
		"shell_environment_policy": settings{"exclude": []any{"CODEX_REMOTE_*", "CODEX_HOME", "INVOCATION_ID"}},
	}
	merge(c, r.provider(catalogue))
	if r.Hands != "" { // there is no command here, and the sandbox of the others is elsewhere, too
		c["sandbox_mode"], c["approval_policy"] = "danger-full-access", "never"
	} else if r.Write {
		c["sandbox_mode"] = "workspace-write"
		c["sandbox_workspace_write"] = settings{"writable_roots": slices.Clone(r.Writable)}
	}
	return c
}

// provider are the settings about the model.
func (r *Remote) provider(catalogue string) settings {
	if r.Provider != "" {
		return settings{
			"model": r.Model, "model_catalog_json": catalogue, "model_provider": r.Provider,
			"model_providers": settings{r.Provider: settings{
				"name": r.Provider, "base_url": r.BaseURL, "wire_api": "responses", "env_key": r.KeyName,
				"requires_openai_auth": false, "supports_websockets": false,
			}},
		}
	}
	c := settings{
		"model_provider":             OfAccounts,
		"chatgpt_base_url":           r.BaseURL,
		"cli_auth_credentials_store": "ephemeral",
		"model_providers": settings{OfAccounts: settings{
			"name": OfAccounts, "base_url": r.BaseURL, "wire_api": "responses",
			"requires_openai_auth": true, "supports_websockets": false,
		}},
		// Of the person who owns the account: the model proxy refuses their requests.
		"features": settings{"apps": false, "plugins": false, "remote_plugin": false},
	}
	if r.Model != "" {
		c["model"] = r.Model
	}
	return c
}

// FindCodex returns the native program of codex: the one of codexPath, or without it the one that a unit with this
// search path finds.
func FindCodex(codexPath, searchPath string) (string, error) {
	return findCodex(&Worker{CodexPath: codexPath}, searchPath, npmPrefixes)
}

// Installed returns the native program of codex that units find which name none.
func Installed() (string, error) { return FindCodex("", systemdPath) }
