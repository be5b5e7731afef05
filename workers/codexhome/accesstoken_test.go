package codexhome

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/modelserver"
)

func TestReadAccessToken(t *testing.T) {
	home := t.TempDir()
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(home, authName), []byte(text), 0o600))
	}
	_, err := ReadAccessToken(home)
	require.ErrorIs(t, err, ErrNoToken)
	_, err = ReadAccessToken(filepath.Join(home, "none"))
	require.Error(t, err)

	account := accountserver.New(modelserver.New(), "a").Account("a")
	write(string(account.Login()))
	token, err := ReadAccessToken(home)
	require.NoError(t, err)
	assert.Equal(t, account.ID(), token.Account)
	assert.Greater(t, token.Expires, int64(1e9))
	assert.Contains(t, token.Token, "SECRET")
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", token, token, token, token), "SECRET")

	for _, text := range []string{
		`{"auth_mode":"apikey","OPENAI_API_KEY":"sk-1"}`, `{}`, `{"auth_mode":"chatgpt","tokens":{}}`,
		`{"auth_mode":"other","tokens":{"access_token":"x"}}`,
	} {
		write(text)
		_, err = ReadAccessToken(home)
		require.ErrorIs(t, err, ErrNoToken, text)
	}
	write(`{"tokens":{"access_token":"SECRET"`)
	_, err = ReadAccessToken(home)
	require.ErrorContains(t, err, "damaged")
	assert.NotContains(t, err.Error(), "SECRET")
	write(`{"tokens":{"access_token":"no.jwt","account_id":"acc"}}`)
	token, err = ReadAccessToken(home)
	require.NoError(t, err)
	assert.Equal(t, AccessToken{Token: "no.jwt", Account: "acc"}, token)
}
