package hereexec

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/here"
)

// codex has settings of a loan from its beginning on, and keeps the name of its provider afterwards.
func TestSettingsOfALoan(t *testing.T) {
	assert.Empty(t, (*loan)(nil).args(here.Record{}))
	after := strings.Join((*loan)(nil).args(here.Record{Loan: &here.Loan{}}), " ")
	assert.Contains(t, after, `model_providers.accounts={name="accounts",wire_api=`)
	assert.NotContains(t, after, "base_url")
	assert.NotContains(t, after, "model_provider=")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	during := strings.Join((&loan{l: l}).args(here.Record{Loan: &here.Loan{On: true}}), " ")
	assert.Contains(t, during, `model_provider="accounts"`)
	assert.Contains(t, during, `base_url="http://`+l.Addr().String()+`/backend-api/codex"`)
	assert.Contains(t, during, `chatgpt_base_url="http://`+l.Addr().String()+`/backend-api/"`)
	assert.Contains(t, during, `cli_auth_credentials_store="ephemeral"`)
}

// A thread of the user's own login goes on with the accounts, unless its client names a provider.
func TestThreadsOfALoan(t *testing.T) {
	edit := func(of *loan, method, params, edited string) string {
		var before []byte
		if edited != "" {
			before = []byte(edited)
		}
		return string(of.edit(authz.Request{ID: "1", Method: method, Params: json.RawMessage(params)}, before))
	}
	assert.JSONEq(t, `{"threadId":"a","modelProvider":"accounts"}`, edit(&loan{}, "thread/resume", `{"threadId":"a"}`, ""))
	assert.JSONEq(t, `{"x":1,"modelProvider":"accounts"}`, edit(&loan{}, "thread/start", `{"modelProvider":null}`, `{"x":1,"modelProvider":null}`))
	assert.Empty(t, edit(&loan{}, "thread/start", `{"modelProvider":"mine"}`, ""))
	assert.Empty(t, edit(&loan{}, "turn/start", `{"threadId":"a"}`, ""))
	assert.Empty(t, edit(nil, "thread/start", `{}`, ""))
	assert.Equal(t, `{"x":1}`, edit(nil, "thread/start", `{}`, `{"x":1}`))
}
