package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
)

// accountHeader names, in a request, the account that is to serve it, and in an answer the
// account that does. An account has the name of its worker.
const accountHeader = "X-Codex-Account"

// choose finds the accounts that may serve a request: the accounts of its key, or the one of them that its header
// names. While the API is open, every program may choose. The error is an *openai.Error.
func (s *Server) choose(r *http.Request, x *Exchange) (err error) {
	own := x.Key.Limits.Accounts
	if x.Accounts, err = accountsOf(own, s.Accounts); err != nil {
		return err
	}
	x.choosing = x.Key.Limits.ChooseAccount || s.Keys.Open()
	wanted, named := r.Header[accountHeader]
	switch {
	case !named:
		return s.chooseSession(r, x)
	case !x.choosing:
		x.Grant.Refuse(auth.ChooseAccount)
		return choiceNotAllowed()
	}
	all := x.Accounts
	if all == nil {
		all = s.Accounts
	}
	name := strings.Join(wanted, ", ")
	if !slices.Contains(all, name) {
		x.Grant.Refuse(auth.Accounts)
		return unknownAccount(name, all)
	}
	x.Accounts = []string{name}
	return s.chooseSession(r, x)
}

// accountsOf are the accounts of a key that exist, of all accounts; nil if it may use all.
func accountsOf(own, all []string) ([]string, error) {
	if len(own) == 0 {
		return nil, nil
	}
	var there []string
	for _, name := range all {
		if slices.Contains(own, name) {
			there = append(there, name)
		}
	}
	if there == nil {
		return nil, noAccountLeft(own)
	}
	return there, nil
}

func choiceNotAllowed() error {
	return &openai.Error{
		Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: "account_choice_not_allowed",
		Message: "this API key may not choose an account: leave " + accountHeader + " out, or have the operator " +
			"allow it with `codex-proxy keys set NAME --choose-account`",
	}
}

func unknownAccount(name string, all []string) error {
	return openai.Invalid("unknown_account", accountHeader, fmt.Sprintf(
		"there is no account %q for this request; use one of %s", openai.Bounded(name), strings.Join(all, ", ")))
}

// noAccountLeft is the error of every request with a key after the removal of its accounts.
func noAccountLeft(own []string) error {
	return &openai.Error{
		Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: "account_not_found",
		Message: fmt.Sprintf("this API key may use the accounts %s alone, and none of them exists: have the operator "+
			"change that with `codex-proxy keys set NAME --accounts=LIST`", strings.Join(own, ", ")),
	}
}

// markAccount reports the account that serves the request to a client that may choose it.
func (x *Exchange) markAccount(h http.Header) {
	if x.choosing && x.Turn.Worker != "" {
		h.Set(accountHeader, x.Turn.Worker)
	}
}
