package codexhome

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// idToken is an unsigned token of a user in an account.
func idToken(account, user string) string {
	claims := `{"https://api.openai.com/auth":{"chatgpt_account_id":"` + account + `",` +
		`"chatgpt_user_id":"` + user + `"}}`
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
}

func TestReadLogin(t *testing.T) {
	tokens := func(id string) string {
		return `"tokens":{"id_token":"` + id + `","access_token":"a","refresh_token":"r","account_id":"acc"}`
	}
	for name, c := range map[string]struct {
		doc  string
		want StoredLogin
	}{
		"API key":       {`{"auth_mode":"apikey","OPENAI_API_KEY":"sk-x"}`, StoredLogin{Login: APIKey}},
		"older API key": {`{"OPENAI_API_KEY":"sk-x","tokens":null}`, StoredLogin{Login: APIKey}},
		"ChatGPT":       {`{"auth_mode":"chatgpt",` + tokens("x") + `}`, StoredLogin{ChatGPT, "acc", digest("r")}},
		"older ChatGPT": {`{"OPENAI_API_KEY":null,` + tokens("x") + `}`, StoredLogin{ChatGPT, "acc", digest("r")}},
		"user": {`{` + tokens(idToken("acc", "user-1")) + `}`,
			StoredLogin{ChatGPT, "acc user-1", digest("r")}},
		"account by id": {`{"tokens":{"id_token":"` + idToken("acc", "") + `"}}`,
			StoredLogin{Login: ChatGPT, Account: "acc"}},
		"damaged token":   {`{` + tokens("a.!.c") + `}`, StoredLogin{ChatGPT, "acc", digest("r")}},
		"another kind":    {`{"auth_mode":"agentIdentity"}`, StoredLogin{Login: OtherLogin}},
		"none":            {`{}`, StoredLogin{}},
		"an empty key":    {`{"OPENAI_API_KEY":""}`, StoredLogin{}},
		"tokens of other": {`{"auth_mode":"chatgptAuthTokens",` + tokens("x") + `}`, StoredLogin{Login: OtherLogin}},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(home, authName), []byte(c.doc), 0o600))
			got, err := ReadLogin(home)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	got, err := ReadLogin(t.TempDir())
	require.NoError(t, err)
	assert.Equal(t, StoredLogin{}, got)
	_, err = ReadLogin(filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// A worker may put anything in the place of its login: root reads no other file for it, and prints nothing of it.
func TestReadLoginTrustsNoHome(t *testing.T) {
	home, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	path := filepath.Join(home, authName)
	require.NoError(t, os.WriteFile(secret, []byte(`{"OPENAI_API_KEY":"sk-of-another"}`), 0o600))
	require.NoError(t, os.Symlink(secret, path))
	_, err := ReadLogin(home)
	assert.ErrorContains(t, err, "cannot read the login in "+home)
	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err = ReadLogin(home)
	assert.ErrorContains(t, err, "auth.json is not a login of codex")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, make([]byte, authMost+1), 0o600))
	_, err = ReadLogin(home)
	assert.ErrorContains(t, err, "auth.json is not a login of codex")
	require.NoError(t, os.WriteFile(path, []byte(`{"OPENAI_API_KEY":"sk-SECRET"`), 0o600))
	_, err = ReadLogin(home)
	assert.EqualError(t, err, "the login in "+home+"/auth.json is damaged: log in again")
}
