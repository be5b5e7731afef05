package accountscli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/control"
	"codex-proxy/workers/sharing"
)

// The words for the login of a worker, in addition to the words of codexhome.Login.
const (
	loginNotNeeded = "not_needed"
	loginMissing   = "missing"
	loginUnknown   = "unknown"
)

// accountList is the output of `codex-proxy accounts list`.
type accountList struct {
	Rotation accounts.Rotation `json:"rotation"`
	Accounts []accountRow      `json:"accounts"`
}

// accountRow is one worker and its account.
type accountRow struct {
	Name        string           `json:"name"`
	Unit        string           `json:"unit"`
	ActiveState string           `json:"active_state"`
	SubState    string           `json:"sub_state"`
	Login       string           `json:"login"`
	Plan        string           `json:"plan,omitempty"`
	Email       string           `json:"email,omitempty"`
	Limits      []accounts.Limit `json:"limits"`
	Error       string           `json:"error,omitempty"` // why the login is unknown

	// State is empty for a worker that needs no login.
	State accounts.State `json:"state,omitempty"`
	Until time.Time      `json:"until,omitzero"`
	Left  float64        `json:"left"`
	// KnownFrom and KnownAt are of the limits.
	KnownFrom  accounts.Source   `json:"known_from,omitempty"`
	KnownAt    time.Time         `json:"known_at,omitzero"`
	RefusedAt  time.Time         `json:"refused_at,omitzero"`
	InvalidAt  time.Time         `json:"invalid_at,omitzero"`
	Credits    *accounts.Credits `json:"credits,omitempty"`
	SharedWith []string          `json:"shared_with,omitempty"`
	Paused     bool              `json:"paused"`
	InUse      bool              `json:"in_use"`
	Next       bool              `json:"next"`
	Why        string            `json:"why,omitempty"`
}

// List prints the workers and their accounts.
func (a *Accounts) List(ctx context.Context, _ string) error {
	if a.Watch {
		a.warned = map[string]bool{}
	}
	list := listing.Listing[accountList]{Stdout: a.Stdout, JSON: a.JSON, Watch: a.Watch, Collect: a.collect,
		Write: writeList, Changes: func(ctx context.Context, changed func()) error {
			return control.NewClient(a.Socket).Changes(ctx, []string{"status", "accounts"}, changed)
		}}
	return list.Run(ctx)
}

// collect joins the daemon's state of each account with its worker's unit.
func (a *Accounts) collect(ctx context.Context) (accountList, error) {
	list := accountList{Accounts: []accountRow{}}
	names, err := WorkerNames()
	if err != nil {
		return list, err
	}
	known := a.state(ctx, names)
	list.Rotation = known.Rotation
	for _, name := range names {
		host := cmp.Or(sharing.Host(survey.Generated, name), name)
		unit, err := a.describe(ctx, units.Worker(host))
		if err != nil {
			return list, err
		}
		list.Accounts = append(list.Accounts, rowOf(name, unit, known))
	}
	return list, nil
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

// rowOf is one worker: with the login that the daemon knows of, or else the one in the
// worker's home.
func rowOf(name string, unit units.Description, known control.Accounts) accountRow {
	row := accountRow{
		Name: name, Unit: unit.Unit, ActiveState: unit.ActiveState, SubState: unit.SubState, Limits: []accounts.Limit{},
	}
	w, err := codexhome.Load(workerFileOf(name))
	switch {
	case err != nil:
		row.Login, row.Error = loginUnknown, err.Error()
		return row
	case !w.NeedsLogin():
		row.Login = loginNotNeeded
		return row
	}
	account := accountOf(known, name)
	row.fill(account)
	if !account.LoginAt.IsZero() && !changedSince(name, unit, account.LoginAt) {
		row.Login = loginOf(account.Account)
		return row
	}
	row.Login, err = loginAtHome(name)
	if err != nil {
		row.Login, row.Error = loginUnknown, err.Error()
	}
	return row
}

// accountOf is the known state of one account.
func accountOf(known control.Accounts, name string) control.Account {
	for _, account := range known.Accounts {
		if account.Worker == name {
			return account
		}
	}
	return control.Account{Account: accounts.Account{State: accounts.Unknown, Limits: []accounts.Limit{}}}
}

// changedSince reports whether a worker that does not run has got another login since.
func changedSince(name string, unit units.Description, at time.Time) bool {
	info, err := os.Stat(loginFileOf(name))
	return unit.ActiveState != "active" && err == nil && info.ModTime().After(at)
}

func (r *accountRow) fill(account control.Account) {
	r.Plan, r.Email, r.Limits = account.Plan, account.Email, account.Limits
	r.State, r.Until, r.Left = account.State, account.Until, account.Left
	r.KnownFrom, r.KnownAt, r.Credits = account.Source, account.At, account.Credits
	r.RefusedAt, r.InvalidAt, r.SharedWith = account.RefusedAt, account.InvalidAt, account.SharedWith
	r.Paused, r.InUse, r.Next, r.Why = account.Paused, account.InUse, account.Next, account.Why
}

// loginOf translates codex's word for a login.
func loginOf(a accounts.Account) string {
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
	in, err := codexhome.ReadLogin(homeOfLogin(name))
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
