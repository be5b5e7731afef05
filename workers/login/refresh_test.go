package login

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/codexaccount"
	"codex-proxy/workers/broker"
)

// codexWith answers a request for the account as a codex does, which may write another login before.
type codexWith func(refresh bool) error

// Call implements codexaccount.Caller.
func (c codexWith) Call(_ context.Context, _ string, params, result any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	var p struct{ RefreshToken bool }
	if err = json.Unmarshal(text, &p); err == nil {
		err = c(p.RefreshToken)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(`{"requiresOpenaiAuth":true,"account":{"type":"chatgpt"}}`), result)
}

// writeLogin writes a login whose access token has the name, and returns the token's digest.
func writeLogin(t *testing.T, home, name string, expires time.Time) string {
	t.Helper()
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d,"n":%q}`, expires.Unix(), name))
	token := "h." + claims + ".s"
	text := fmt.Sprintf(`{"auth_mode":"chatgpt","tokens":{"access_token":%q,"account_id":"a"}}`, token)
	require.NoError(t, os.WriteFile(filepath.Join(home, "auth.json"), []byte(text), 0o600))
	return broker.Digest(token)
}

// A refresh that fails for a passing reason says nothing of the login: it is not given up for that.
func TestARefreshThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := t.TempDir()
		refreshes := 0
		refresh := func() error { return errors.New("no answer") }
		codex := codexWith(func(asked bool) error {
			if !asked {
				return nil
			}
			refreshes++
			return refresh()
		})
		l := &Tokens{Home: home}
		l.ask = func(ctx context.Context, q reading) (codexaccount.Account, error) { return q(ctx, codex) }
		old := writeLogin(t, home, "old", time.Now().Add(time.Hour))
		for range 3 {
			_, err := l.Token(t.Context(), old)
			require.ErrorContains(t, err, "no answer")
			assert.NotEqual(t, broker.LoginInvalid, broker.CodeOf(err))
		}
		assert.Equal(t, 1, refreshes, "no client has it refreshed again and again")

		<-time.After(refreshPause)
		refresh = func() error { return nil } // without a network codex keeps the old token, and names no error
		for range 2 {
			_, err := l.Token(t.Context(), old)
			assert.Equal(t, broker.Unavailable, broker.CodeOf(err), err)
		}
		writeLogin(t, home, "old", time.Now().Add(-time.Hour))
		_, err := l.Token(t.Context(), "")
		assert.Equal(t, broker.Unavailable, broker.CodeOf(err), err)

		<-time.After(refreshPause)
		var fresh string
		refresh = func() error { fresh = writeLogin(t, home, "new", time.Now().Add(time.Hour)); return nil }
		_, err = l.Token(t.Context(), old)
		require.NoError(t, err)
		_, err = l.Token(t.Context(), fresh)
		assert.Equal(t, broker.LoginInvalid, broker.CodeOf(err), "a token that is new, and refused")
	})
}

// A codex that does not run has used up nothing: it is asked again at once.
func TestNoCodexToRefresh(t *testing.T) {
	home := t.TempDir()
	l := &Tokens{Home: home}
	reads := 0
	l.ask = func(ctx context.Context, q reading) (codexaccount.Account, error) {
		if reads++; reads == 3 { // the refresh
			return codexaccount.Account{}, errors.New("connection refused")
		}
		return q(ctx, codexWith(func(refresh bool) error {
			if refresh {
				writeLogin(t, home, "new", time.Now().Add(time.Hour))
			}
			return nil
		}))
	}
	old := writeLogin(t, home, "old", time.Now().Add(time.Hour))
	_, err := l.Token(t.Context(), old)
	require.Error(t, err)
	assert.Empty(t, broker.CodeOf(err))
	_, err = l.Token(t.Context(), old)
	assert.NoError(t, err)
}
