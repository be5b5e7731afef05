package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
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
	sql := RoleSQL(a, text)
	assert.Contains(t, sql, `CREATE ROLE "co""dex" LOGIN PASSWORD '`+text+`';`)
	assert.NotContains(t, sql, password)
}
