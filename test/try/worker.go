package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"codex-proxy/test/machine"
)

// worker is the worker that try has chosen.
type worker struct {
	is     string // one line for the person at the keyboard
	hint   string // how to get the real one; empty if it is
	config string // its worker file
	binds  []machine.Bind
	files  []machine.File
	login  bool // it uses the login in hostCodexHome
}

// chooseWorker returns the worker for MODEL_ENDPOINT if it is set, else codex with a
// login if there is one, else the demo.
func chooseWorker(ctx context.Context, s settings) (worker, error) {
	binary, err := findCodex(s)
	if err != nil {
		return worker{}, err
	}
	if s.endpoint != "" {
		return endpointWorker(ctx, s, binary)
	}
	auth := filepath.Join(s.codexHome, "auth.json")
	st, err := os.Stat(auth)
	switch {
	case binary == "":
		return demoWorker(
			"codex is not on PATH: `npm install -g @openai/codex`, `codex login`, then `make run` again"), nil
	case err != nil:
		return demoWorker(fmt.Sprintf("%s has no login (%s): `codex login`, then `make run` again", binary, auth)), nil
	}
	return loginWorker(s, binary, st), nil
}

func demoWorker(hint string) worker {
	return worker{is: "the built-in demo, canned answers (model demo)", hint: hint, config: "mode = \"demo\"\n"}
}

func endpointWorker(ctx context.Context, s settings, binary string) (worker, error) {
	if binary == "" {
		return worker{}, errors.New(
			"MODEL_ENDPOINT needs a real codex, and there is none on PATH (hint: CODEX=/path/to/codex)")
	}
	model := s.model
	if model == "" {
		var err error
		if model, err = firstModel(ctx, s.endpoint); err != nil {
			return worker{}, fmt.Errorf("cannot find a model of MODEL_ENDPOINT=%s: %w (hint: MODEL=name)",
				s.endpoint, err)
		}
	}
	w := codexWorker(binary,
		fmt.Sprintf("model = %q\n[provider]\nname = \"endpoint\"\nbase_url = %q\n", model, s.endpoint))
	w.is = fmt.Sprintf("%s against %s (model %s)", binary, s.endpoint, model)
	return w, nil
}

// loginWorker uses the login where it is. A copy would not do: refresh tokens
// are used once, and two holders of one get the login revoked. codex follows
// the symlink and replaces the file behind it, so the worker needs the whole
// directory, as its owner.
func loginWorker(s settings, binary string, auth os.FileInfo) worker {
	model := ""
	if s.model != "" {
		model = fmt.Sprintf("model = %q\n", s.model)
	}
	w := codexWorker(binary, model)
	w.is = fmt.Sprintf("%s with the login in %s", binary, s.codexHome)
	w.login = true
	w.binds = append(w.binds, machine.Bind{Source: s.codexHome, Target: hostCodexHome})
	uid := auth.Sys().(*syscall.Stat_t).Uid
	dropIn := fmt.Sprintf("[Service]\nDynamicUser=no\nUser=%d\nReadWritePaths=%s\n", uid, hostCodexHome)
	w.files = append(w.files, machine.File{Path: workerDropIn, Data: []byte(dropIn)})
	if _, err := user.LookupId(fmt.Sprint(uid)); err != nil { // systemd takes no user that has no name
		w.files = append(w.files, machine.File{Path: ownerUser, Data: fmt.Appendf(nil, "u codex-home-owner %d\n", uid)})
	}
	return w
}

func codexWorker(binary, config string) worker {
	source, target, inside := codexTree(binary)
	return worker{
		config: fmt.Sprintf("mode = \"plain\"\ncodex_path = %q\n%s", inside, config),
		binds:  []machine.Bind{{Source: source, Target: target, ReadOnly: true}},
	}
}

// firstModel returns the first model that the endpoint lists.
func firstModel(ctx context.Context, endpoint string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := getJSON(ctx, strings.TrimSuffix(endpoint, "/")+"/models", &list); err != nil {
		return "", err
	}
	if len(list.Data) == 0 {
		return "", errors.New("it lists none")
	}
	return list.Data[0].ID, nil
}

func getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(into)
}
