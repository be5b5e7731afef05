package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/proxy/control"
	"codex-proxy/proxy/workers"
	"codex-proxy/units"
)

// The words for what a worker is logged in with, beside those of codexhome.Login.
const (
	loginNotNeeded = "not_needed"
	loginMissing   = "missing"
	loginUnknown   = "unknown"
)

// accountRow is one worker as `codex-proxy accounts list` shows it.
type accountRow struct {
	Name        string          `json:"name"`
	Unit        string          `json:"unit"`
	ActiveState string          `json:"active_state"`
	SubState    string          `json:"sub_state"`
	Login       string          `json:"login"`
	Plan        string          `json:"plan,omitempty"`
	Email       string          `json:"email,omitempty"`
	Limits      []workers.Limit `json:"limits"`
	Error       string          `json:"error,omitempty"` // why the login is unknown
}

// List prints the workers. The daemon asks a running worker, over the connection that it
// has; the login of another one is read from its home.
func (a *Accounts) List(ctx context.Context, _ string) error {
	names, err := WorkerNames()
	if err != nil {
		return err
	}
	running := a.running(ctx)
	rows := []accountRow{}
	for _, name := range names {
		unit, err := a.describe(ctx, units.Worker(name))
		if err != nil {
			return err
		}
		row := accountRow{
			Name: name, Unit: unit.Unit, ActiveState: unit.ActiveState, SubState: unit.SubState, Limits: []workers.Limit{},
		}
		fill(&row, running)
		rows = append(rows, row)
	}
	if a.JSON {
		return json.NewEncoder(a.Stdout).Encode(map[string]any{"accounts": rows})
	}
	return writeAccounts(a.Stdout, rows, time.Now())
}

// WorkerNames returns the names of the worker files.
func WorkerNames() ([]string, error) {
	files, err := os.ReadDir(paths.WorkerSettings)
	if err != nil {
		return nil, fmt.Errorf("cannot list the workers: %w", err)
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".toml"); ok && units.ValidName(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// running returns the accounts that the daemon reports: none, if it does not answer.
func (a *Accounts) running(ctx context.Context) map[string]workers.Account {
	accounts, err := control.NewClient(a.Socket).Accounts(ctx)
	if err != nil && !errors.Is(err, control.ErrNotRunning) {
		a.print("The service does not report plans and limits: %v", err)
	}
	running := map[string]workers.Account{}
	for _, account := range accounts {
		running[account.Worker] = account
	}
	return running
}

// fill adds the login of a worker: as the daemon knows it, or else as the worker's home
// has it.
func fill(row *accountRow, running map[string]workers.Account) {
	w, err := codexhome.Load(workerFileOf(row.Name))
	account, known := running[row.Name]
	switch {
	case err != nil:
		row.Login, row.Error = loginUnknown, err.Error()
	case !w.NeedsLogin():
		row.Login = loginNotNeeded
	case known:
		row.Login, row.Plan, row.Email, row.Limits = loginOf(account), account.Plan, account.Email, account.Limits
	default:
		row.Login, err = loginAtHome(row.Name)
		if err != nil {
			row.Login, row.Error = loginUnknown, err.Error()
		}
	}
}

// loginOf translates codex's word for a login.
func loginOf(a workers.Account) string {
	switch a.Login {
	case "chatgpt":
		return string(codexhome.ChatGPT)
	case "apiKey":
		return string(codexhome.APIKey)
	case "":
		if a.Required {
			return loginMissing
		}
		return loginNotNeeded
	}
	return string(codexhome.OtherLogin)
}

// loginAtHome is the kind of the login in the worker's home.
func loginAtHome(name string) (string, error) {
	in, err := codexhome.ReadLogin(workerHomeOf(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return loginMissing, nil
	case err != nil:
		return loginUnknown, err
	case in.Login == codexhome.NoLogin:
		return loginMissing, nil
	}
	return string(in.Login), nil
}
