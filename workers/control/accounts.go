package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"codex-proxy/workers/accounts"
)

// Accounts is the body of /v1/accounts. It is for root alone, as it names the owners of the
// accounts.
type Accounts struct {
	Rotation accounts.Rotation `json:"rotation"`
	Accounts []Account         `json:"accounts"`
}

// Account is the known state of one account, and the plan for it.
type Account struct {
	accounts.Account
	// Next means that the account serves once the one in use is low.
	Next bool `json:"next,omitempty"`
	// Why is the reason in words why the account's worker runs or does not.
	Why string `json:"why,omitempty"`
}

// AccountOrder is the body of POST /v1/accounts.
type AccountOrder struct {
	Account string        `json:"account"`
	Do      AccountAction `json:"do"`
}

// AccountAction is an operator's order for an account.
type AccountAction string

// The actions.
const (
	SwitchAccount AccountAction = "switch" // makes it the account in use
	PauseAccount  AccountAction = "pause"  // keeps new turns from it
	ResumeAccount AccountAction = "resume" // ends the pause
)

// AccountTable has the accounts of the daemon.
type AccountTable interface {
	Accounts() Accounts
	// Order carries an order out. The error may be ErrMoved, or wrap accounts.ErrUnknown; its
	// text is for operators.
	Order(AccountOrder) error
}

func (s *Server) getAccounts(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, s.accounts.Accounts())
}

// orderAccount answers with the accounts after the order.
func (s *Server) orderAccount(w http.ResponseWriter, r *http.Request) {
	var order AccountOrder
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&order); err != nil {
		write(w, http.StatusBadRequest, failure{"cannot read the request: " + err.Error()})
		return
	}
	if err := s.accounts.Order(order); err != nil {
		status := statusOf(err)
		if errors.Is(err, accounts.ErrUnknown) {
			status = http.StatusNotFound
		}
		write(w, status, failure{err.Error()})
		return
	}
	s.getAccounts(w, r)
}

// Accounts returns the daemon's state of the accounts.
func (c *Client) Accounts(ctx context.Context) (Accounts, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var a Accounts
	_, err := c.ask(ctx, http.MethodGet, "/v1/accounts", nil, &a)
	return a, err
}

// OrderAccount carries out an order, and returns the accounts after it.
func (c *Client) OrderAccount(ctx context.Context, order AccountOrder) (a Accounts, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout) // a hand-off that is under way is first
	defer cancel()
	body, err := json.Marshal(order)
	if err != nil {
		return a, err
	}
	err = untilSettled(ctx, func() error {
		_, err := c.ask(ctx, http.MethodPost, "/v1/accounts", body, &a)
		return err
	})
	return a, err
}
