// Package auth checks API keys. Keys are random and long, so one SHA-256 is
// enough to store them; they are compared in constant time and never logged.
package auth

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// Keys are the API keys that may use the proxy. The zero value (and nil) holds
// none. It is read-only once parsed and safe for concurrent use.
type Keys struct {
	entries []entry
}

type entry struct {
	name string
	hash [sha256.Size]byte
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// ValidName tells whether a key may be called name, and if not why.
func ValidName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("key name %q must be 1 to 64 of A-Z a-z 0-9 _ . -", name)
	}
	return nil
}

// Parse reads a key file: one "NAME SHA256HEX" a line, # begins a comment.
// Errors name the line and never repeat its content.
func Parse(r io.Reader) (*Keys, error) {
	keys := &Keys{}
	seen := map[string]bool{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(strings.SplitN(lines.Text(), "#", 2)[0])
		if len(fields) == 0 {
			continue
		}
		e, err := parseEntry(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if seen[e.name] {
			return nil, fmt.Errorf("line %d: key %q stands here twice", n, e.name)
		}
		seen[e.name] = true
		keys.entries = append(keys.entries, e)
	}
	return keys, lines.Err()
}

func parseEntry(fields []string) (entry, error) {
	var e entry
	if len(fields) != 2 || ValidName(fields[0]) != nil {
		return e, fmt.Errorf("want NAME and the key's SHA-256 in hex; codex-proxy keys add NAME writes such a line")
	}
	hash, err := hex.DecodeString(fields[1])
	if err != nil || len(hash) != sha256.Size {
		return e, fmt.Errorf("the second word must be a SHA-256 in hex (64 digits), never the key itself; codex-proxy keys add NAME writes such a line")
	}
	e.name = fields[0]
	copy(e.hash[:], hash)
	return e, nil
}

// Generate makes a new key. The line is for the key file; the key itself is to
// be shown once and kept nowhere.
func Generate(name string) (key, line string, err error) {
	if err := ValidName(name); err != nil {
		return "", "", err
	}
	var random [32]byte
	rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	key = "sk-codex-" + base64.RawURLEncoding.EncodeToString(random[:])
	hash := sha256.Sum256([]byte(key))
	return key, name + " " + hex.EncodeToString(hash[:]), nil
}

// Empty reports whether there is no key, so that none is asked for.
func (k *Keys) Empty() bool { return k == nil || len(k.entries) == 0 }

// Names are the names of all keys in file order.
func (k *Keys) Names() []string {
	var names []string
	for _, e := range k.entries {
		names = append(names, e.name)
	}
	return names
}

// Check returns the name of the key that the request carries as a bearer
// token. Every entry is compared, in constant time, so the time taken tells
// nothing.
func (k *Keys) Check(r *http.Request) (name string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
	for _, e := range k.entries {
		if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			name, ok = e.name, true
		}
	}
	return name, ok
}
