package codexhome

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"codex-proxy/units"
)

// Home is the home of one worker, and the inputs of its preparation.
type Home struct {
	Worker      string            // name of the instance
	File        string            // the worker file
	Dir         string            // CODEX_HOME
	Runtime     string            // the unit's RuntimeDirectory
	Private     string            // a directory that codex cannot see, for the record of the last run; empty: Dir
	Credentials string            // the unit's credentials directory; empty: it has none
	Broker      string            // HOST:PORT of the worker's broker; empty: codex has the network of the machine
	Keeps       bool              // codex keeps the worker's login, and runs no turns (codex-login@.service)
	Self        string            // our own executable, which is the demo worker
	Program     string            // the native codex; empty: search for it
	SearchPath  string            // the directories to search for codex, as $PATH
	Strict      bool              // a codex newer than the tested ones has to accept all of our settings
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
	if err := checkOwner(h.Dir); err != nil {
		return err
	}
	if h.Broker == "" { // else codex has no login
		if err := AdoptLogin(h.Dir); err != nil {
			return err
		}
	}
	program, workspace, err := h.prepare(ctx)
	if err != nil {
		return h.discard(err)
	}
	if err := link(workspace, filepath.Join(h.Runtime, "workspace")); err != nil {
		return err
	}
	return link(program, filepath.Join(h.Runtime, "codex"))
}

// discard removes the files by which codex would start, because of err, which it returns.
func (h *Home) discard(err error) error {
	if gone := removeFiles(h.stampFile(), h.configFile()); gone != nil {
		return fmt.Errorf("%w (and %w)", err, gone)
	}
	return err
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
	if w, err = h.role(w); err != nil {
		return "", "", err
	}
	if workspace, err = h.workspace(w); err != nil || w.Mode == Demo {
		return h.Self, workspace, err
	}
	if program, err = h.program(w); err != nil {
		return "", "", err
	}
	if err = h.certificates(w); err != nil {
		return "", "", err
	}
	if err = h.noTools(w); err != nil {
		return "", "", err
	}
	if err = h.environments(w); err != nil {
		return "", "", err
	}
	p := preparation{h, w, codex{path: program, home: h.Dir, dir: workspace}}
	if inputs := h.inputs(doc, program, workspace); !h.fresh(inputs) {
		err = p.renew(ctx, inputs)
	}
	if err == nil && !h.Keeps { // that runs no turns
		p.noTraces(ctx)
	}
	return program, workspace, err
}

// role is the worker as the codex of this home sees it.
func (h *Home) role(w *Worker) (*Worker, error) {
	switch {
	case !h.Keeps:
		return behindBroker(h, w)
	case !w.NeedsLogin():
		return nil, &Problem{File: w.File, Text: "the worker needs no login now",
			Hint: "`systemctl restart " + units.Worker(h.Worker) + "` ends the use of the one that it had"}
	case !w.LoginApart():
		return nil, &Problem{File: w.File, Text: "the worker keeps its login itself",
			Hint: "`systemctl restart " + units.Worker(h.Worker) + "` takes the login there"}
	}
	return &Worker{File: w.File, Mode: keeper, CodexPath: w.CodexPath, lines: w.lines}, nil
}

// behindBroker is the worker as codex sees it. Its unit may be made of an earlier text of the file.
func behindBroker(h *Home, w *Worker) (*Worker, error) {
	const remedy = "`systemctl daemon-reload` makes the unit of the file; then restart it"
	switch {
	case w.Brokered == (h.Broker != ""):
	case w.Brokered:
		return nil, w.problem("network", `network = "model", and the unit still has the network of the machine`, remedy)
	case w.Mode != Demo:
		return nil, &Problem{File: h.File, Text: "the unit has no network, and these settings need one", Hint: remedy}
	}
	if !w.Brokered {
		return w, nil
	}
	if w.LoginApart() {
		if name := loginIn(h.Dir); name != "" {
			text := "codex would have the login in " + filepath.Join(h.Dir, name)
			return nil, w.problem("network", text, "the unit "+units.Login(h.Worker)+" has one already: remove this file, or log in again after that")
		}
		return through(w, h.Broker), nil
	}
	key := filepath.Join(h.Credentials, w.Provider.Credential)
	if _, err := os.Lstat(key); w.Provider.Credential != "" && h.Credentials != "" && err == nil {
		return nil, w.problem("provider.credential", fmt.Sprintf("codex would have the key, the credential %q",
			w.Provider.Credential), "give it by LoadCredential= of `systemctl edit codex-worker@"+h.Worker+"` alone")
	}
	return through(w, h.Broker), nil
}

func (h *Home) program(w *Worker) (string, error) {
	if h.Program != "" {
		return h.Program, nil
	}
	return findCodex(w, h.SearchPath, npmPrefixes)
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
	if w.Mode == Native && w.Hands == nil {
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
