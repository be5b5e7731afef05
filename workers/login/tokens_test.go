package login

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/handshake"
	"codex-proxy/codex/versions"
	"codex-proxy/test/accountserver"
	"codex-proxy/test/codexes"
	"codex-proxy/test/modelserver"
	"codex-proxy/workers/broker"
)

// lenderBed is the real codex with the login of an account of the stand-in of OpenAI.
type lenderBed struct {
	*Tokens
	server  *accountserver.Server
	account *accountserver.Account
}

// startLender starts codex in a home with the login of the account, as edit leaves it.
func startLender(t *testing.T, edit func(login []byte) []byte, config string) *lenderBed {
	t.Helper()
	program := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if program == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX names no codex")
	}
	b := &lenderBed{server: accountserver.New(modelserver.New(), "a")}
	b.account = b.server.Account("a")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host = "chatgpt.com"; strings.HasPrefix(r.URL.Path, "/oauth/") {
			r.Host = "auth.openai.com"
		}
		b.server.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	auth := b.account.Login()
	if edit != nil {
		auth = edit(auth)
	}
	dir := t.TempDir()
	config = fmt.Sprintf("chatgpt_base_url = %q\ncli_auth_credentials_store = \"file\"\n", web.URL+"/backend-api") + config
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "auth.json"), auth, 0o600))
	b.Tokens = &Tokens{Home: dir, Socket: filepath.Join(dir, "s"), Version: "test"}
	cmd := exec.Command(program, "app-server", "--listen", "unix://"+b.Socket)
	cmd.Env = append(os.Environ(), "CODEX_HOME="+dir, "HOME="+dir, "RUST_LOG=error",
		"CODEX_REFRESH_TOKEN_URL_OVERRIDE="+web.URL+"/oauth/token")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.Eventually(t, func() bool {
		_, err := handshake.With(t.Context(), b.Socket, "test", func(*appserver.Conn) error { return nil })
		return err == nil
	}, 5*time.Minute, 5*time.Millisecond)
	return b
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestOlderCodexes(t *testing.T) {
	codexes.Older(t, versions.Oldest, map[string]func(*testing.T){
		"lends the login": TestLendsTheLoginOfCodex, "a login that is not accepted": TestALoginThatIsNotAccepted,
	})
}

// What the real codex has is lent, and codex alone refreshes it: when it is refused, and not twice for two clients.
func TestLendsTheLoginOfCodex(t *testing.T) {
	b := startLender(t, nil, "")
	login, err := b.Token(within(t), "")
	require.NoError(t, err)
	assert.Equal(t, b.account.ID(), login.AccountID)
	assert.Equal(t, b.account.Email(), login.Email)
	assert.Equal(t, b.account.Quota().Plan, login.Plan)
	assert.True(t, login.Lasts(time.Now(), time.Hour))
	text, err := json.Marshal(login)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "refresh")
	assert.Empty(t, b.account.Record().Refreshes)

	_, err = b.Token(within(t), broker.Digest("of another token"))
	require.NoError(t, err)
	assert.Empty(t, b.account.Record().Refreshes, "codex has a newer one than the refused one already")

	b.account.Expire()
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			fresh, err := b.Token(within(t), broker.Digest(login.AccessToken))
			if assert.NoError(t, err) {
				assert.NotEqual(t, login.AccessToken, fresh.AccessToken)
			}
		})
	}
	both.Wait()
	assert.Len(t, b.account.Record().Refreshes, 1)

	fresh, err := b.Token(within(t), "")
	require.NoError(t, err)
	_, err = b.Token(within(t), broker.Digest(fresh.AccessToken))
	assert.Equal(t, broker.LoginInvalid, broker.CodeOf(err), "no client has it refreshed again and again")
	assert.Len(t, b.account.Record().Refreshes, 1)
}

// A token that is about to end is refreshed before it is lent.
func TestLendsNoTokenThatEnds(t *testing.T) {
	b := startLender(t, func(login []byte) []byte {
		var auth struct{ Tokens map[string]string }
		require.NoError(t, json.Unmarshal(login, &auth))
		token := auth.Tokens["access_token"]
		return bytes.ReplaceAll(login, []byte(token), []byte(ending(t, token)))
	}, "")
	login, err := b.Token(within(t), "")
	require.NoError(t, err)
	assert.True(t, login.Lasts(time.Now(), time.Hour))
	assert.Len(t, b.account.Record().Refreshes, 1)
}

// ending is the same token with an end in a minute.
func ending(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	claims := map[string]any{}
	require.NoError(t, json.Unmarshal(payload, &claims))
	claims["exp"] = time.Now().Add(time.Minute).Unix()
	payload, err = json.Marshal(claims)
	require.NoError(t, err)
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + parts[2]
}

func TestALoginThatIsNotAccepted(t *testing.T) {
	b := startLender(t, nil, "")
	login, err := b.Token(within(t), "")
	require.NoError(t, err)
	b.account.Invalidate()
	_, err = b.Token(within(t), broker.Digest(login.AccessToken))
	assert.Equal(t, broker.LoginInvalid, broker.CodeOf(err), err)
}

// An API key, and a worker with a provider of its own, have nothing to lend.
func TestNothingToLend(t *testing.T) {
	b := startLender(t, func([]byte) []byte { return []byte(`{"auth_mode":"apikey","OPENAI_API_KEY":"sk-SECRET"}`) }, "")
	_, err := b.Token(within(t), "")
	assert.Equal(t, broker.NoAccount, broker.CodeOf(err), err)
	assert.NotContains(t, err.Error(), "SECRET")

	b = startLender(t, nil, "model_provider = \"mine\"\n[model_providers.mine]\nname = \"mine\"\nbase_url = \"http://127.0.0.1:1\"\n")
	_, err = b.Token(within(t), "")
	assert.Equal(t, broker.NoAccount, broker.CodeOf(err), err)
}
