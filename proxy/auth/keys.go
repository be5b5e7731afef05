// Package auth checks API keys. Keys are random and long, so one SHA-256 is
// enough to store them; they are compared in constant time and never logged.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// Keys are the API keys in force. The zero value holds none, and so does nil, which
// cannot be replaced. Its methods are safe for concurrent use.
type Keys struct {
	table    atomic.Pointer[table]
	required atomic.Bool
	dated    atomic.Pointer[dated]
}

// table is one state of the key file. It never changes.
type table struct {
	keys   []Key
	closed bool // the file has had a key: without one every request is refused
}

// Key is one line of the key file.
type Key struct {
	Name   string
	Limits Limits

	hash [sha256.Size]byte
}

func (k *Keys) current() *table {
	if k == nil || k.table.Load() == nil {
		return &table{}
	}
	return k.table.Load()
}

// Replace puts the keys of a key file into force; from then on no others are
// accepted. On an error, which is one of Parse's, nothing changes.
func (k *Keys) Replace(file string) error {
	fresh, err := Parse(strings.NewReader(file))
	if err == nil {
		k.table.Store(fresh.current())
	}
	return err
}

// Text is a key file of these keys without comments; it has ClosedLine if theirs has.
// It holds hashes only.
func (k *Keys) Text() string {
	var text strings.Builder
	if k.current().closed {
		text.WriteString(noKey + " " + noKeyHash + "\n")
	}
	for _, e := range k.All() {
		words := append([]string{e.Name, hex.EncodeToString(e.hash[:])}, e.Limits.Words()...)
		text.WriteString(strings.Join(words, " ") + "\n")
	}
	return text.String()
}

// Digest is the SHA-256 of Text in hex. Two key tables with the same digest are equal.
func (k *Keys) Digest() string {
	sum := sha256.Sum256([]byte(k.Text()))
	return hex.EncodeToString(sum[:])
}

// Require makes every request need a key from now on, also without any key, so that revoking the last key does not open
// the API.
func (k *Keys) Require() { k.required.Store(true) }

// Required reports whether Require was called.
func (k *Keys) Required() bool { return k != nil && k.required.Load() }

// Closed reports whether the key file has ClosedLine.
func (k *Keys) Closed() bool { return k.current().closed }

// Open reports whether requests need no key: the file has none and has had none since the API was opened, Require was
// not called, and no database has the keys.
func (k *Keys) Open() bool { return k.Empty() && !k.Closed() && !k.Required() && !k.Shared() }

// Empty reports whether there is no key.
func (k *Keys) Empty() bool { return len(k.current().keys) == 0 }

// All are the keys in file order.
func (k *Keys) All() []Key { return k.current().keys }

// Names are the names of all keys in file order.
func (k *Keys) Names() []string {
	var names []string
	for _, e := range k.All() {
		names = append(names, e.Name)
	}
	return names
}

// Check returns the key that the request carries as a bearer token, as clients of OpenAI's API do, in X-Api-Key, as
// Anthropic's clients do, or in Api-Key, as Azure's clients do. A client may send several, each from a setting of its
// own; of two keys that are in force the bearer token counts, and then X-Api-Key.
func (k *Keys) Check(r *http.Request) (key Key, ok bool) {
	for _, secret := range secrets(r) {
		if found, there := k.Find(secret); there {
			key, ok = found, true
		}
	}
	return key, ok
}

// HasKey reports whether the request carries a key, in force or not.
func HasKey(r *http.Request) bool {
	return slices.ContainsFunc(secrets(r), func(secret string) bool { return secret != "" })
}

// secrets are the keys of a request, the strongest last.
func secrets(r *http.Request) []string {
	bearer := ""
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		bearer = token
	}
	return []string{strings.TrimSpace(r.Header.Get("Api-Key")), strings.TrimSpace(r.Header.Get("X-Api-Key")),
		strings.TrimSpace(bearer)}
}

// ID identifies the key, with its secret, among all keys. It is a part of the key file, and no secret.
func (k Key) ID() string { return k.Name + " " + hex.EncodeToString(k.hash[:]) }

// ByID returns the key that is in force with that ID.
func (k *Keys) ByID(id string) (key Key, ok bool) {
	for _, e := range k.All() {
		if e.ID() == id {
			return e, true
		}
	}
	return Key{}, false
}

// Find returns the key with that secret. It compares every entry, in constant time, so its duration reveals nothing.
func (k *Keys) Find(secret string) (key Key, ok bool) {
	hash := sha256.Sum256([]byte(secret))
	for _, e := range k.All() {
		if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			key, ok = e, true
		}
	}
	return key, ok
}

// Generate makes a new key. The line is for the key file; the key itself is to be
// shown once and stored nowhere.
func Generate(name string) (key, line string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	if name == noKey {
		return "", "", fmt.Errorf("key name %q marks a line of the key file that is no key; choose another name", name)
	}
	var random [32]byte
	rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	key = "sk-codex-" + base64.RawURLEncoding.EncodeToString(random[:])
	hash := sha256.Sum256([]byte(key))
	return key, name + " " + hex.EncodeToString(hash[:]), nil
}
