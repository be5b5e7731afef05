package codexhome

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/internal/strict"
)

// Home is the home of one worker, and the inputs of its preparation.
type Home struct {
	Worker      string            // name of the instance
	File        string            // the worker file
	Dir         string            // CODEX_HOME
	Runtime     string            // the unit's RuntimeDirectory
	Private     string            // a directory that codex cannot see, for the record of the last run; empty: Dir
	Credentials string            // the unit's credentials directory; empty: it has none
	Self        string            // our own executable, which is the demo worker
	SearchPath  string            // the directories to search for codex, as $PATH
	Note        func(line string) // called with notes for the operator about a start that succeeds
}

func (h *Home) configFile() string    { return filepath.Join(h.Dir, configName) }
func (h *Home) catalogueFile() string { return filepath.Join(h.Dir, "model-catalogue.json") }
func (h *Home) stampFile() string     { return filepath.Join(cmp.Or(h.Private, h.Dir), ".prepared.json") }
func (h *Home) authFile() string      { return filepath.Join(h.Dir, authName) }

// The files of codex's login and settings, in its home.
const (
	authName   = "auth.json"
	configName = "config.toml"
)

// Prepare makes the home ready for codex. Runtime/codex becomes a link to the program to run, and
// Runtime/workspace a link to its working directory. Runtime/certificates.pem exists if codex is to trust that
// alone, and Runtime/no-tools if codex starts no programs. ctx bounds the runs of codex.
// A new login becomes the home's before codex runs (Offer); the caller holds the lock of the home.
// After a failure there is no config.toml. Errors are a *Problem for the operator, ErrRetry if a later run may
// succeed, or a fault of the machine.
func (h *Home) Prepare(ctx context.Context) error {
	if err := h.checkOwner(); err != nil {
		return err
	}
	if err := AdoptLogin(h.Dir); err != nil {
		return err
	}
	program, workspace, err := h.prepare(ctx)
	if err != nil {
		if gone := removeFiles(h.stampFile(), h.configFile()); gone != nil {
			return fmt.Errorf("%w (and %w)", err, gone)
		}
		return err
	}
	if err := link(workspace, filepath.Join(h.Runtime, "workspace")); err != nil {
		return err
	}
	return link(program, filepath.Join(h.Runtime, "codex"))
}

func (h *Home) prepare(ctx context.Context) (program, workspace string, err error) {
	doc, err := os.ReadFile(h.File)
	if err != nil {
		return "", "", unreadable(h.File, err)
	}
	w, err := parse(h.File, doc)
	if err != nil {
		return "", "", err
	}
	if workspace, err = h.workspace(w); err != nil || w.Mode == Demo {
		return h.Self, workspace, err
	}
	if program, err = findCodex(w, h.SearchPath, npmPrefixes); err != nil {
		return "", "", err
	}
	if err = h.certificates(w); err != nil {
		return "", "", err
	}
	if err = h.noTools(w); err != nil {
		return "", "", err
	}
	c := codex{path: program, home: h.Dir, dir: workspace}
	if inputs := h.inputs(doc, program, workspace); !h.fresh(inputs) {
		err = h.renew(ctx, w, c, inputs)
	}
	if err == nil {
		h.noTraces(ctx, w, c)
	}
	return program, workspace, err
}

// noTools makes Runtime/no-tools, if codex starts no programs.
func (h *Home) noTools(w *Worker) error {
	path := filepath.Join(h.Runtime, "no-tools")
	if w.Mode != Plain {
		return removeFiles(path)
	}
	return writeFile(path, nil)
}

// workspace is codex's working directory: an empty one, except in mode native.
func (h *Home) workspace(w *Worker) (string, error) {
	dir := filepath.Join(h.Runtime, "empty")
	if w.Mode == Native {
		dir = filepath.Join(h.Dir, "workspace")
	}
	if w.Workspace != "" {
		if info, err := os.Stat(w.Workspace); err != nil || !info.IsDir() {
			text := fmt.Sprintf("workspace = %q is not a directory that the worker can see", w.Workspace)
			return "", w.problem("workspace", text, "")
		}
		return w.Workspace, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot make the workspace: %w", err)
	}
	return dir, nil
}

// renew writes the home anew and makes codex read it. It writes the stamp last.
func (h *Home) renew(ctx context.Context, w *Worker, c codex, inputs string) error {
	if err := removeFiles(h.stampFile(), h.configFile()); err != nil {
		return err
	}
	from := oldest
	if w.remote != nil {
		from = OldestAttended
	}
	version, err := c.version(ctx, from)
	if err != nil {
		return err
	}
	keyFile, err := h.keyFile(w)
	if err != nil {
		return err
	}
	base, err := h.base(ctx, w, c, keyFile)
	if err != nil {
		return err
	}
	written, err := h.settle(ctx, w, c, base, version)
	if err != nil {
		return err
	}
	if w.sandbox != nil {
		if err := h.requireHidden(ctx, w, c, written, keyFile); err != nil {
			return err
		}
	}
	if w.remote == nil && needsLogin(written) {
		if err := h.requireLogin(ctx, c); err != nil {
			return err
		}
	}
	files := []string{h.configFile()}
	if w.hasCatalogue() {
		files = append(files, h.catalogueFile())
	}
	// codex may have changed the login meanwhile; a stamp of older inputs only causes one more run.
	return h.stamp(inputs, files...)
}

// base writes the model catalogue, if the worker has one, and returns the settings around it.
func (h *Home) base(ctx context.Context, w *Worker, c codex, keyFile string) (settings, error) {
	if !w.hasCatalogue() {
		return h.confined(w, c, w.base("", keyFile)), removeFiles(h.catalogueFile())
	}
	bundled, err := c.models(ctx)
	if err != nil {
		return nil, err
	}
	catalogue, err := w.catalogue(bundled)
	if err != nil {
		return nil, err
	}
	return h.confined(w, c, w.base(h.catalogueFile(), keyFile)), writeFile(h.catalogueFile(), catalogue)
}

// keyFile is the path of the provider's key, a credential of systemd.
func (h *Home) keyFile(w *Worker) (string, error) {
	if w.Provider == nil || w.Provider.Credential == "" {
		return "", nil
	}
	name := w.Provider.Credential
	path := filepath.Join(h.Credentials, name)
	if _, err := os.Stat(path); h.Credentials == "" || err != nil {
		return "", w.problem("provider.credential", fmt.Sprintf("the unit has no credential %q", name),
			fmt.Sprintf("`systemctl edit codex-worker@%s` and add [Service] LoadCredential=%s:/path/to/key",
				h.Worker, name))
	}
	return path, nil
}

// settle writes config.toml and makes codex read it, without the settings of ours that this codex lacks, until
// codex accepts it. It returns the accepted settings.
func (h *Home) settle(ctx context.Context, w *Worker, c codex, base settings, version string) (settings, error) {
	var unknown []string
	for {
		config := w.config(base, unknown)
		doc, err := render(h.File, config)
		if err != nil {
			return nil, err
		}
		if err := writeFile(h.configFile(), doc); err != nil {
			return nil, err
		}
		refused, err := c.check(ctx)
		if err != nil {
			return nil, err
		}
		if refused == nil {
			h.noteUnknown(version, unknown)
			return config, nil
		}
		if codexPath, err := filepath.EvalSymlinks(h.configFile()); err == nil && refused.File == codexPath {
			refused.File = h.configFile() // codex resolves links, and the home of a dynamic user is one
		}
		key := refused.key(strict.LinesOf(doc))
		if refused.File != h.configFile() || !w.dispensable(key) || !has(config, key) {
			return nil, w.explain(refused, h.configFile(), key, version)
		}
		unknown = append(unknown, key) // the loop ends, since each key leaves the config
	}
}

func (h *Home) noteUnknown(version string, unknown []string) {
	if len(unknown) > 0 {
		h.Note(fmt.Sprintf("codex %s is too old to turn off all that it adds (it lacks %s); "+
			"the worker starts, a newer codex would do better", version, strings.Join(unknown, ", ")))
	}
}

func (h *Home) requireLogin(ctx context.Context, c codex) error {
	in, err := c.loggedIn(ctx)
	if err != nil || in {
		return err
	}
	return &Problem{File: h.File, Text: "codex is not logged in",
		Hint: fmt.Sprintf("run `codex-proxy accounts login %s`", h.Worker)}
}
