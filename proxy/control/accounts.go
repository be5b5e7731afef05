package control

import (
	"context"
	"net/http"

	"codex-proxy/proxy/workers"
)

// accounts is the body of /v1/accounts. It is for root alone, as it names the
// owners of the accounts.
type accounts struct {
	Accounts []workers.Account `json:"accounts"`
}

func (s *Server) accounts(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, accounts{s.pool.Accounts()})
}

// Accounts are those that the connected workers have reported.
func (c *Client) Accounts(ctx context.Context) ([]workers.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var a accounts
	_, err := c.ask(ctx, http.MethodGet, "/v1/accounts", nil, &a)
	return a.Accounts, err
}
