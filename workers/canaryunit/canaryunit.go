// Package canaryunit runs a codex that no client has used yet, with the settings of workers and remotes, and tries it
// against a model of its own: it is the main process of codex-canary@.service.
package canaryunit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"codex-proxy/codex/canary"
	"codex-proxy/codex/versions"
	"codex-proxy/workers/codexhome"
)

// Trial is the trial of one codex.
type Trial struct {
	Program string // of codex
	Before  string // of the codex in use; empty: there is none
	Dir     string // for its files; the caller removes them
	Version string // of codex-proxy
	Logger  *slog.Logger

	found string // the version that codex says of itself
	url   string // of the model
	home  *codexhome.Home
}

// Found is the version that codex has said of itself; empty if it did not.
func (t *Trial) Found() string { return t.found }

// Run tries the codex. An error is a *canary.Failure, or a fault of the machine.
func (t *Trial) Run(ctx context.Context) error { return t.run(ctx, canary.Limits(), t.settings()) }

// settings are the steps before codex serves.
func (t *Trial) settings() []canary.Step {
	return []canary.Step{
		{Name: "its settings as a remote", Run: t.asRemote},
		{Name: "its settings as a native worker", Run: t.asNative},
		{Name: "its settings as a plain worker", Run: func(ctx context.Context) (err error) {
			t.home, err = t.worker(ctx, codexhome.Plain, t.Program)
			return err
		}},
		{Name: "its protocol", Run: t.protocol},
	}
}

// run tries the codex by these settings, and then as the server of a plain worker. A step that is late is tried again,
// and the steps after it have the time of that try at once.
func (t *Trial) run(ctx context.Context, limits []canary.Limit, settings []canary.Step) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot listen for the requests of codex: %w", err)
	}
	endpoint := &canary.Endpoint{}
	model := &http.Server{Handler: endpoint, ReadHeaderTimeout: canary.StepLimit}
	var serving sync.WaitGroup
	serving.Go(func() { _ = model.Serve(l) }) // until it is closed
	defer serving.Wait()
	defer func() { _ = model.Close() }()
	t.url = "http://" + l.Addr().String() + "/v1"
	for _, step := range settings {
		tries := 0
		err := canary.Try(limits, func(limit canary.Limit) error { tries++; return canary.Run(ctx, limit, step) })
		if err != nil {
			return err
		}
		limits = limits[tries-1:]
	}
	return canary.Try(limits, func(limit canary.Limit) error { return t.serve(ctx, limit, endpoint) })
}

// newHome makes the directories of a home.
func (t *Trial) newHome(name string) (*codexhome.Home, error) {
	dir := filepath.Join(t.Dir, name)
	h := &codexhome.Home{
		Worker: "canary", File: filepath.Join(dir, "canary.toml"), Dir: filepath.Join(dir, "home"),
		Runtime: filepath.Join(dir, "run"), Strict: true,
		Note: func(string) {}, // of older codexes
	}
	return h, errors.Join(os.MkdirAll(h.Dir, 0o700), os.MkdirAll(h.Runtime, 0o700))
}

// worker makes the home of a worker of that mode.
func (t *Trial) worker(ctx context.Context, mode codexhome.Mode, program string) (*codexhome.Home, error) {
	h, err := t.newHome(string(mode))
	if err != nil {
		return nil, err
	}
	file := fmt.Sprintf("mode = %q\nmodel = %q\ncodex_path = %q\n\n[provider]\nname = \"canary\"\nbase_url = %q\n",
		mode, canary.Model, program, t.url)
	if err := os.WriteFile(h.File, []byte(file), 0o600); err != nil {
		return nil, err
	}
	return h, h.Prepare(ctx)
}

// asNative runs codex's sandbox, too. On a machine where no codex has a sandbox, that is no fault of this one.
func (t *Trial) asNative(ctx context.Context) error {
	_, err := t.worker(ctx, codexhome.Native, t.Program)
	if err == nil || ctx.Err() != nil || t.Before == "" {
		return err
	}
	if _, before := t.worker(ctx, codexhome.Native, t.Before); before == nil {
		return err
	}
	t.Logger.Info("the codex in use cannot run native workers here either", "error", err)
	return nil
}

// asRemote is nil for a version that no remote takes.
func (t *Trial) asRemote(ctx context.Context) error {
	h, err := t.newHome("remote")
	if err != nil {
		return err
	}
	t.found, err = codexhome.VersionOf(ctx, t.Program, h.Dir)
	if err != nil || versions.Older(t.found, versions.OldestForRemotes) {
		return err
	}
	return h.PrepareRemote(ctx, codexhome.Remote{
		File: h.File, CodexPath: t.Program, Model: canary.Model, Provider: "canary", BaseURL: t.url,
		KeyName: "CANARY_KEY", Directory: h.Runtime, Write: true,
	})
}

func (t *Trial) protocol(ctx context.Context) error {
	dir := filepath.Join(t.Dir, "schema")
	if err := codexhome.WriteSchema(ctx, t.Program, t.home.Dir, dir); err != nil {
		return fmt.Errorf("codex does not write its schema: %w", err)
	}
	return canary.CheckSchema(dir)
}
