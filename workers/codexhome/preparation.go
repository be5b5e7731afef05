package codexhome

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/strict"
)

// preparation makes a home ready for one codex with the settings of one worker.
type preparation struct {
	*Home
	worker *Worker
	codex  codex
}

// renew writes the home anew and makes codex read it. It writes the stamp last.
func (p *preparation) renew(ctx context.Context, inputs string) error {
	if err := removeFiles(p.stampFile(), p.configFile()); err != nil {
		return err
	}
	from := versions.Oldest
	if p.worker.remote != nil || p.worker.Hands != nil {
		from = versions.OldestForRemotes
	}
	version, err := p.codex.version(ctx, from)
	if err != nil {
		return err
	}
	keyFile, err := p.keyFile()
	if err != nil {
		return err
	}
	base, err := p.base(ctx, keyFile)
	if err != nil {
		return err
	}
	if p.worker.sandbox != nil && versions.Older(version, versions.RefusesLinkedDocuments) {
		base["project_doc_max_bytes"] = 0 // a tool could link AGENTS.md to any file of the home
		p.Note(fmt.Sprintf("codex %s follows links of AGENTS.md out of the workspace; it reads no AGENTS.md "+
			"(hint: use 0.%d or newer)", version, versions.RefusesLinkedDocuments))
	}
	written, err := p.settle(ctx, base, version)
	if err != nil {
		return err
	}
	if p.worker.sandbox != nil {
		if err := p.requireHidden(ctx, written, keyFile); err != nil {
			return err
		}
	}
	if p.worker.remote == nil && needsLogin(written) {
		if err := p.requireLogin(ctx); err != nil {
			return err
		}
	}
	files := []string{p.configFile()}
	if p.worker.hasCatalogue() {
		files = append(files, p.catalogueFile())
	}
	// codex may have changed the login meanwhile; a stamp of older inputs only causes one more run.
	return p.stamp(inputs, files...)
}

// base writes the model catalogue, if the worker has one, and returns the settings around it.
func (p *preparation) base(ctx context.Context, keyFile string) (settings, error) {
	if !p.worker.hasCatalogue() {
		return p.confined(p.worker.base("", keyFile)), removeFiles(p.catalogueFile())
	}
	bundled, err := p.codex.models(ctx)
	if err != nil {
		return nil, err
	}
	catalogue, err := p.worker.catalogue(bundled)
	if err != nil {
		return nil, err
	}
	return p.confined(p.worker.base(p.catalogueFile(), keyFile)), writeFile(p.catalogueFile(), catalogue)
}

// keyFile is the path of the provider's key, a credential of systemd.
func (p *preparation) keyFile() (string, error) {
	if p.worker.Provider == nil || p.worker.Provider.Credential == "" {
		return "", nil
	}
	name := p.worker.Provider.Credential
	path := filepath.Join(p.Credentials, name)
	if _, err := os.Stat(path); p.Credentials == "" || err != nil {
		return "", p.worker.problem("provider.credential", fmt.Sprintf("the unit has no credential %q", name),
			fmt.Sprintf("`systemctl edit codex-worker@%s` and add [Service] LoadCredential=%s:/path/to/key",
				p.Worker, name))
	}
	return path, nil
}

// settle writes config.toml and makes codex read it, without the settings of ours that this codex lacks, until
// codex accepts it. It returns the accepted settings.
func (p *preparation) settle(ctx context.Context, base settings, version string) (settings, error) {
	var unknown []string
	for {
		config := p.worker.config(base, unknown)
		doc, err := render(p.File, config)
		if err != nil {
			return nil, err
		}
		if err := writeFile(p.configFile(), doc); err != nil {
			return nil, err
		}
		refused, err := p.codex.check(ctx)
		if err != nil {
			return nil, err
		}
		if refused == nil {
			p.noteUnknown(version, unknown)
			return config, nil
		}
		if codexPath, err := filepath.EvalSymlinks(p.configFile()); err == nil && refused.File == codexPath {
			refused.File = p.configFile() // codex resolves links, and the home of a dynamic user is one
		}
		key := refused.key(strict.LinesOf(doc))
		wanted := p.Strict && versions.Standing(version) != ""
		if refused.File != p.configFile() || wanted || !p.worker.dispensable(key) || !has(config, key) {
			return nil, p.worker.explain(refused, p.configFile(), key, version)
		}
		unknown = append(unknown, key) // the loop ends, since each key leaves the config
	}
}

func (p *preparation) noteUnknown(version string, unknown []string) {
	if len(unknown) > 0 {
		p.Note(fmt.Sprintf("codex %s is too old to turn off all that it adds (it lacks %s); "+
			"the worker starts, a newer codex would do better", version, strings.Join(unknown, ", ")))
	}
}

func (p *preparation) requireLogin(ctx context.Context) error {
	in, err := p.codex.loggedIn(ctx)
	if err != nil || in {
		return err
	}
	return &Problem{File: p.File, Text: ErrNoLogin.Error(), cause: ErrNoLogin,
		Hint: fmt.Sprintf("run `codex-proxy accounts login %s`", p.Worker)}
}
