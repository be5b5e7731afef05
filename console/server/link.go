package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"
)

// linkLife is how long a link is valid.
const linkLife = time.Minute

// Token returns a random text that cannot be guessed.
func Token() string {
	random := make([]byte, 24)
	rand.Read(random) // never fails: crypto/rand aborts the program instead
	return base64.RawURLEncoding.EncodeToString(random)
}

// Link is the access by a link, which is valid once. Its methods are safe for concurrent use.
type Link struct {
	token, service string
	readOnly       bool
	born           time.Time

	mu      sync.Mutex // guards the rest
	used    bool
	session string // empty before the link was used
}

// NewLink returns a link that is valid from now on.
func NewLink(token, service string, readOnly bool) *Link {
	return &Link{token: token, service: service, readOnly: readOnly, born: time.Now()}
}

// Begin implements Access: the first request with the token gets the session.
func (l *Link) Begin(_ context.Context, token string) (begun Begun, why string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := "; end " + l.service + " console with Ctrl-C and start it again"
	switch {
	case l.used:
		return begun, "the link was used" + again, nil
	case time.Since(l.born) > linkLife:
		return begun, "the link was valid for " + linkLife.String() + again, nil
	case subtle.ConstantTimeCompare([]byte(token), []byte(l.token)) != 1:
		return begun, "the link is wrong", nil
	}
	l.used, l.session = true, Token()
	return Begun{Session: l.session, ReadOnly: l.readOnly, Service: l.service}, "", nil
}

// Known implements Access.
func (l *Link) Known(_ context.Context, session string) (why string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == "" || subtle.ConstantTimeCompare([]byte(session), []byte(l.session)) != 1 {
		return "open the link that " + l.service + " console has printed", nil
	}
	return "", nil
}

// Person implements Access.
func (l *Link) Person(string) string { return "" }

// Keyed implements Access.
func (l *Link) Keyed() bool { return false }
