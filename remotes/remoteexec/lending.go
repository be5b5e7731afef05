package remoteexec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/remotes"
	"codex-proxy/remotes/fence"
	"codex-proxy/remotes/lender"
	"codex-proxy/remotes/remote"
	"codex-proxy/workers/logins"
)

// openBound is how long a start waits for the first login. codex starts without one, too.
const openBound = 15 * time.Second

// lending is how codex reaches its model.
type lending struct {
	*lender.Lender
	args []string // of codex

	// Of accounts; nil for a provider.
	borrower *lender.Borrower
	client   *logins.Client
}

// lend makes the server for codex. Its error has an exit status.
func (u *Unit) lend(s *remote.Settings) (*lending, error) {
	key, err := u.key(s)
	if err != nil {
		return nil, cli.Exit(cli.Config, err)
	}
	at := lenderURL + ":" + fence.LenderPort
	if p := s.Provider; p != nil {
		l, err := lender.New(p.BaseURL, key, p.CAFile, u.logger)
		if err != nil {
			return nil, cli.Exit(cli.Config, s.Fault("provider.ca_file", "%v", err))
		}
		return &lending{Lender: l, args: []string{"-c", baseURL(p.Name, at)}}, os.Setenv(lenderKey, l.Token)
	}
	known, _ := remotes.ReadState(filepath.Join(u.Home, keeperDir)) // New reports its faults
	client := logins.NewClient(u.Logins)
	borrower := lender.NewBorrower(client, s.Accounts, known.Account, u.logger)
	l, err := lender.ForAccounts(borrower, lender.AccountsService, u.logger)
	at += lender.Prefix
	return &lending{Lender: l, borrower: borrower, client: client, args: []string{
		"-c", baseURL(accountsProvider, at+"/codex"), "-c", fmt.Sprintf("chatgpt_base_url=%q", at+"/")}}, err
}

func baseURL(provider, url string) string {
	return fmt.Sprintf("model_providers.%s.base_url=%q", provider, url)
}

// accounts are those of the keeper's codex; nil for a provider.
func (l *lending) accounts() remotes.Accounts {
	if l.borrower == nil {
		return nil
	}
	return l.borrower
}

// open gets the first login.
func (l *lending) open(ctx context.Context) {
	if l.borrower == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	l.borrower.Open(ctx)
}
