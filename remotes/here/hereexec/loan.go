package hereexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codex-proxy/broker/modelproxy"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/here"
	"codex-proxy/remotes/namespaces"
	"codex-proxy/workers/broker"
	"codex-proxy/workers/codexhome"
)

// openBound is how long the first client waits for the first login at most.
const openBound = 15 * time.Second

// loan has accounts of codex-proxy serve codex in place of the user's login. codex gets a stand-in, in memory alone,
// and sends its requests to the model proxy, which adds the login of an account.
type loan struct {
	*modelproxy.Proxy

	tokens *modelproxy.TokenSource
	client *broker.Client
	l      net.Listener
}

// loan is the loan of the user; nil: the login of the user serves.
func (u *Unit) loan(r here.Record) (*loan, error) {
	if !r.Lends() {
		return nil, nil
	}
	// Before the first login: other processes of the user cannot read the memory of this one then.
	if err := namespaces.Keep(); err != nil {
		return nil, err
	}
	known, _ := remotes.ReadState(u.turns()) // New reports its faults
	client := broker.NewClient(paths.LoginsSocket)
	tokens := modelproxy.NewTokenSource(client, r.Loan.Accounts, known.Account, u.logger)
	proxy, err := modelproxy.ForAccounts(tokens, modelproxy.AccountsService, u.logger)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for codex: %w", err)
	}
	return &loan{proxy, tokens, client, l}, nil
}

// turns is the directory of the turn journal.
func (u *Unit) turns() string { return filepath.Join(u.State, "turns") }

// args are codex's settings by which the accounts serve it. After a loan they name the provider still: the threads of
// that time have its name, and go on with the user's login.
func (l *loan) args(r here.Record) (args []string) {
	if r.Loan == nil {
		return nil
	}
	set := func(key, format string, values ...any) {
		args = append(args, "-c", key+"="+fmt.Sprintf(format, values...))
	}
	address := ""
	if l != nil {
		at := "http://" + l.l.Addr().String() + modelproxy.Prefix
		address = fmt.Sprintf("base_url=%q,", at+"/codex")
		set("model_provider", "%q", codexhome.OfAccounts)
		set("chatgpt_base_url", "%q", at+"/")
		set("cli_auth_credentials_store", "%q", "ephemeral")                   // the user's own login stays in its file
		for _, feature := range []string{"apps", "plugins", "remote_plugin"} { // the model proxy refuses their requests
			set("features."+feature, "false")
		}
	}
	set("model_providers."+codexhome.OfAccounts,
		"{name=%q,%swire_api=\"responses\",requires_openai_auth=true,supports_websockets=false}",
		codexhome.OfAccounts, address)
	return args
}

// edit has a thread of another provider go on with the accounts. It gets the request of a client, as it was edited
// before.
func (l *loan) edit(r authz.Request, edited []byte) []byte {
	if l == nil || !slices.Contains(loading, r.Method) || r.ID == "" {
		return edited
	}
	text := edited
	if text == nil {
		text = r.Params
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(text, &params) != nil || params == nil {
		return edited
	}
	if given := params["modelProvider"]; len(given) > 0 && string(given) != "null" {
		return edited
	}
	params["modelProvider"], _ = json.Marshal(codexhome.OfAccounts) // of a string
	if text, err := json.Marshal(params); err == nil {
		return text
	}
	return edited
}

// open gets the first login.
func (l *loan) open(ctx context.Context) {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	l.tokens.Open(ctx)
}

// serve starts the servers of the loan.
func (u *Unit) serveLoan(ctx context.Context, l *loan) {
	if l == nil {
		return
	}
	u.tasks.Go(func() { l.client.Run(ctx) })
	u.tasks.Go(func() {
		if err := l.Run(ctx, l.l); err != nil && ctx.Err() == nil {
			u.logger.Error("the server that lends codex its key or login does not run", "error", err)
		}
	})
}

// loanOf is the loan in the record of the user, as one word to compare.
func (u *Unit) loanOf() (string, error) {
	r, err := u.Records.Get(u.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return loanWord(r), err
}

func loanWord(r here.Record) string {
	if r.Loan == nil {
		return ""
	}
	return fmt.Sprint(r.Loan.On, " ", strings.Join(r.Loan.Accounts, ","))
}
