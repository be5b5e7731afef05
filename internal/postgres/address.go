// Package postgres connects to PostgreSQL, over TLS that verifies the server, also from a process without a network:
// through a unix socket that a relay serves.
package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Address is the URL of a database, without a password.
type Address struct{ url *url.URL }

// ParseAddress reads a URL such as postgres://codex@db.example.com/codex.
func ParseAddress(text string) (Address, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "postgres" && u.Scheme != "postgresql", u.Hostname() == "", u.User.Username() == "",
		strings.Trim(u.Path, "/") == "":
		return Address{}, errors.New(`must be the URL of a database, such as "postgres://codex@db.example.com/codex"`)
	case strings.Contains(u.Host, ","):
		return Address{}, errors.New("must name one server; let a name of DNS lead to the one that takes writes")
	}
	if _, set := u.User.Password(); set {
		return Address{}, errors.New("must have no password; " +
			"it goes into /etc/codex-proxy/database-password, mode 0600")
	}
	query := u.Query()
	if mode := query.Get("sslmode"); mode != "" && mode != "verify-full" {
		return Address{}, fmt.Errorf("sslmode=%s would not verify the server; leave it away: it is verify-full", mode)
	}
	query.Del("sslmode")
	if len(query) > 0 || u.Fragment != "" {
		return Address{}, errors.New("must have no parameters but sslmode=verify-full")
	}
	u.RawQuery = ""
	return Address{u}, nil
}

// Host returns the name or the IP address of the server.
func (a Address) Host() string { return a.url.Hostname() }

// Port returns the port of the server.
func (a Address) Port() string { return cmp.Or(a.url.Port(), "5432") }

// User returns the role.
func (a Address) User() string { return a.url.User.Username() }

// As is the same database for another role.
func (a Address) As(role string) Address {
	u := *a.url
	u.User = url.User(role)
	return Address{&u}
}

// Database returns the name of the database.
func (a Address) Database() string { return strings.Trim(a.url.Path, "/") }

// Server returns HOST:PORT.
func (a Address) Server() string { return net.JoinHostPort(a.Host(), a.Port()) }

// String returns the URL.
func (a Address) String() string { return a.url.String() }

// IsZero reports whether there is no database.
func (a Address) IsZero() bool { return a.url == nil }
