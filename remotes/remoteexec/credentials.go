package remoteexec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/broker/modelproxy"
	"codex-proxy/internal/cli"
	"codex-proxy/remotes"
	"codex-proxy/remotes/namespaces"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/workers/broker"
)

// openBound is how long a start waits for the first login. codex starts without one, too.
const openBound = 15 * time.Second

// credentials is how codex reaches its model.
type credentials struct {
	*modelproxy.Proxy
	args []string // of codex

	// Of accounts; nil for a provider.
	tokens *modelproxy.TokenSource
	client *broker.Client
}

// answer makes the server for codex. Its error has an exit status.
func (u *Unit) credentials(s *remoteconfig.Settings) (*credentials, error) {
	key, err := u.key(s)
	if err != nil {
		return nil, cli.Exit(cli.Config, err)
	}
	at := modelProxyURL + ":" + namespaces.ModelPort
	if p := s.Provider; p != nil {
		l, err := modelproxy.New(modelproxy.Endpoint{BaseURL: p.BaseURL, Key: key, CAFile: p.CAFile}, u.logger)
		if err != nil {
			return nil, cli.Exit(cli.Config, s.Fault("provider.ca_file", "%v", err))
		}
		return &credentials{Proxy: l, args: []string{"-c", baseURL(p.Name, at)}}, os.Setenv(modelProxyKey, l.Token)
	}
	known, _ := remotes.ReadState(filepath.Join(u.Home, managerDir)) // New reports its faults
	client := broker.NewClient(u.Logins)
	tokens := modelproxy.NewTokenSource(client, s.Accounts, known.Account, u.logger)
	l, err := modelproxy.ForAccounts(tokens, modelproxy.AccountsService, u.logger)
	at += modelproxy.Prefix
	return &credentials{Proxy: l, tokens: tokens, client: client, args: []string{
		"-c", baseURL(accountsProvider, at+"/codex"), "-c", fmt.Sprintf("chatgpt_base_url=%q", at+"/")}}, err
}

func baseURL(provider, url string) string {
	return fmt.Sprintf("model_providers.%s.base_url=%q", provider, url)
}

// accounts returns the accounts of the manager's codex; nil for a provider.
func (l *credentials) accounts() remotes.Accounts {
	if l.tokens == nil {
		return nil
	}
	return l.tokens
}

// open gets the first login.
func (l *credentials) open(ctx context.Context) {
	if l.tokens == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	l.tokens.Open(ctx)
}
