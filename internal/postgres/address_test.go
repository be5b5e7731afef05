package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddress(t *testing.T) {
	a, err := ParseAddress("postgres://codex@db.example.com/codex?sslmode=verify-full")
	require.NoError(t, err)
	assert.Equal(t, "db.example.com:5432", a.Server())
	assert.Equal(t, "postgres://codex@db.example.com/codex", a.String())
	a, err = ParseAddress("postgresql://codex@[fd00::1]:6432/keys")
	require.NoError(t, err)
	assert.Equal(t, "[fd00::1]:6432", a.Server())
	assert.Equal(t, "keys", a.Database())
	for text, want := range map[string]string{
		"":                                    "must be the URL of a database",
		"mysql://codex@db/codex":              "must be the URL of a database",
		"postgres://db/codex":                 "must be the URL of a database",
		"postgres://codex@db":                 "must be the URL of a database",
		"postgres://codex@/codex?host=/run":   "must be the URL of a database",
		"postgres://codex:secret@db/codex":    "must have no password",
		"postgres://codex@a,b/codex":          "must name one server",
		"postgres://codex@db/codex?a=1":       "must have no parameters",
		"postgres://codex@db/codex?sslmode=x": "sslmode=x would not verify the server",
	} {
		_, err := ParseAddress(text)
		if assert.ErrorContains(t, err, want, text) {
			assert.NotContains(t, err.Error(), "secret")
		}
	}
}

// The name of the server stays in pgx's configuration, whatever leads there: without it there would be no TLS.
func TestTLSWithARelay(t *testing.T) {
	a, err := ParseAddress("postgres://codex@db.example.com/codex")
	require.NoError(t, err)
	for _, relay := range []string{"", "/run/relay"} {
		config, err := Server{Address: a, Password: "secret", Relay: relay}.config()
		require.NoError(t, err)
		assert.Equal(t, "db.example.com", config.TLSConfig.ServerName)
		assert.False(t, config.TLSConfig.InsecureSkipVerify)
		assert.Empty(t, config.Fallbacks)
	}
	_, err = Server{Address: a}.config()
	assert.ErrorContains(t, err, "/etc/codex-proxy/database-password")
}

// The authorities are the same for the daemon and for commands of root, whatever is in root's home.
func TestAuthorities(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".postgresql"), 0o700))
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(home, ".postgresql/root.crt"), own, 0o600))
	config, err := Server{Address: mustParse(t, "postgres://codex@db/codex"), Password: "secret"}.config()
	require.NoError(t, err)
	assert.Nil(t, config.TLSConfig.RootCAs, "those of the system")
}

// PostgreSQL takes the text as the verifier of the password, and it does not have the password.
func TestVerifier(t *testing.T) {
	password := NewPassword()
	text, err := Verifier(password)
	require.NoError(t, err)
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == '$' || r == ':' })
	require.Len(t, parts, 5)
	assert.Equal(t, []string{"SCRAM-SHA-256", "4096"}, parts[:2])
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	require.NoError(t, err)
	salted, err := pbkdf2.Key(sha256.New, password, salt, 4096, 32)
	require.NoError(t, err)
	server := hmac.New(sha256.New, salted)
	server.Write([]byte("Server Key"))
	assert.Equal(t, base64.StdEncoding.EncodeToString(server.Sum(nil)), parts[4])

	a, err := ParseAddress("postgres://co%22dex@db/codex")
	require.NoError(t, err)
	sql, err := RolesSQL(a, password)
	require.NoError(t, err)
	assert.Contains(t, sql, `ALTER ROLE "co""dex" LOGIN PASSWORD 'SCRAM-SHA-256$4096:`)
	assert.Contains(t, sql, `ALTER ROLE "co""dex_service" LOGIN PASSWORD 'SCRAM-SHA-256$4096:`)
	assert.NotContains(t, sql, password)
	assert.Contains(t, sql, `"co""dex" SET statement_timeout = '5s'`)
	assert.Contains(t, sql, `"co""dex_service" SET statement_timeout = '60s'`, "large histories take long")
	assert.Contains(t, sql, `"co""dex_service" SET lock_timeout = '800ms'`, "below the bound of a call")
	assert.NotContains(t, sql, ServicePassword(password))
	assert.NotContains(t, ServicePassword(password), password)
	assert.Equal(t, "postgres://codex_service@db/codex", mustParse(t, "postgres://codex@db/codex").As(ServiceRole("codex")).String())
}

func mustParse(t *testing.T, text string) Address {
	t.Helper()
	a, err := ParseAddress(text)
	require.NoError(t, err)
	return a
}
