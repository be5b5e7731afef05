package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// iterations is the default of PostgreSQL (scram_iterations).
const iterations = 4096

// NewPassword makes a password.
func NewPassword() string { return rand.Text() }

// Verifier is a password as PostgreSQL stores it (RFC 5803): the server can check the password by it, and nobody can
// log in with it.
func Verifier(password string) (string, error) {
	salt := make([]byte, 16)
	rand.Read(salt) // never fails: crypto/rand aborts the program instead
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	mac := func(words string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(words))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, text(salt), text(stored[:]),
		text(mac("Server Key"))), nil
}

// RoleSQL is the SQL, for psql of a superuser, that makes the role and the database of an address. The timeouts are
// settings of the role, as poolers refuse them as parameters of a connection.
func RoleSQL(a Address, verifier string) string {
	role, database := identifier(a.User()), identifier(a.Database())
	return fmt.Sprintf(`CREATE ROLE %[1]s LOGIN PASSWORD '%[3]s';
ALTER ROLE %[1]s SET statement_timeout = '5s';
ALTER ROLE %[1]s SET lock_timeout = '2s';
ALTER ROLE %[1]s SET idle_in_transaction_session_timeout = '5s';
ALTER ROLE %[1]s SET tcp_keepalives_idle = 30;
ALTER ROLE %[1]s SET tcp_keepalives_interval = 5;
ALTER ROLE %[1]s SET tcp_keepalives_count = 3;
CREATE DATABASE %[2]s OWNER %[1]s;
REVOKE ALL ON DATABASE %[2]s FROM PUBLIC;
-- pg_hba.conf: hostssl %[4]s %[5]s ADDRESSES-OF-THE-HOSTS scram-sha-256
`, role, database, verifier, a.Database(), a.User())
}

func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
