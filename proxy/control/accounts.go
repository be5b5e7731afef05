package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"codex-proxy/proxy/workers"
)

// accounts is the body of /v1/accounts. It is for root alone, as it says whose
// accounts they are.
type accounts struct {
	Accounts []workers.Account `json:"accounts"`
}

func (s *Server) accounts(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, accounts{s.pool.Accounts()})
}

// Accounts are those that the connected workers have told of.
func (c *Client) Accounts(ctx context.Context) ([]workers.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	res, err := c.do(ctx, http.MethodGet, "/v1/accounts", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var a accounts
	if err := json.NewDecoder(io.LimitReader(res.Body, maxReport)).Decode(&a); err != nil {
		return nil, fmt.Errorf("cannot read the answer of codex-proxy: %w", err)
	}
	return a.Accounts, nil
}
