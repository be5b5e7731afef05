package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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

// ServiceRole is the role by which the daemons connect. It belongs to a role that owns the tables, and has fewer
// rights.
func ServiceRole(owner string) string { return owner + "_service" }

// ServicePassword is the password of the service's role. It follows from the owner's, so that hosts have one file in
// common; the owner's does not follow from it.
func ServicePassword(owner string) string {
	h := hmac.New(sha256.New, []byte(owner))
	h.Write([]byte("codex-proxy: the role of the service"))
	return hex.EncodeToString(h.Sum(nil))
}

// Service is the same server for the service's role. The server has the password of the owner.
func (s Server) Service() Server {
	s.Address, s.Password = s.Address.As(ServiceRole(s.Address.User())), ServicePassword(s.Password)
	return s
}

// RolesSQL is the SQL, for psql of a superuser, that makes the roles and the database of an address, or gives the roles
// that are there these passwords. The timeouts are settings of the roles, as poolers refuse them as parameters of a
// connection.
func RolesSQL(a Address, password string) (string, error) {
	owner, service := a.User(), ServiceRole(a.User())
	of, err := roleSQL(owner, password, "5s", "2s")
	if err != nil {
		return "", err
	}
	more, err := roleSQL(service, ServicePassword(password), serviceStatement, serviceLock)
	if err != nil {
		return "", err
	}
	return of + more + fmt.Sprintf(`SELECT format('CREATE DATABASE %%I OWNER %%I', %[1]s, %[2]s)
	WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = %[1]s) \gexec
REVOKE ALL ON DATABASE %[3]s FROM PUBLIC;
GRANT CONNECT ON DATABASE %[3]s TO %[4]s;
-- pg_hba.conf: hostssl %[5]s %[6]s,%[7]s ADDRESSES-OF-THE-HOSTS scram-sha-256
`, literal(a.Database()), literal(owner), identifier(a.Database()), identifier(service), a.Database(), owner,
		service), nil
}

const (
	// serviceStatement is longer than the longest bound of a call of the service, which large histories have.
	serviceStatement = "60s"
	// serviceLock is shorter than the shortest: the server reports a lock before the service gives the server up.
	serviceLock = "800ms"
)

// roleSQL makes one role, or gives it a password. The text has the verifier alone. The timeouts are of a statement, and
// of a lock.
func roleSQL(role, password, statement, lock string) (string, error) {
	verifier, err := Verifier(password)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`SELECT format('CREATE ROLE %%I', %[1]s)
	WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = %[1]s) \gexec
ALTER ROLE %[2]s LOGIN PASSWORD '%[3]s';
ALTER ROLE %[2]s SET statement_timeout = '%[4]s';
ALTER ROLE %[2]s SET lock_timeout = '%[5]s';
ALTER ROLE %[2]s SET idle_in_transaction_session_timeout = '5s';
ALTER ROLE %[2]s SET tcp_keepalives_idle = 30;
ALTER ROLE %[2]s SET tcp_keepalives_interval = 5;
ALTER ROLE %[2]s SET tcp_keepalives_count = 3;
`, literal(role), identifier(role), verifier, statement, lock), nil
}

func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
