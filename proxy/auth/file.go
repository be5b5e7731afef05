package auth

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"codex-proxy/internal/lazyregexp"
)

// maxFile is the largest key file, in bytes: some hundred keys. A running daemon
// receives all of it, and hands it to the next process at a reload.
const maxFile = 48 << 10

var validName = lazyregexp.New(`^[A-Za-z0-9_.-]+$`)

// noKey is the name of the line that marks a key file which has had a key: when none is
// left, the API is closed. An older version reads the line as a key that no client has,
// as no bytes with a SHA-256 of zero are known.
const noKey = "no-key"

var noKeyHash = strings.Repeat("0", 2*sha256.Size)

// ClosedLine is that line of a key file.
func ClosedLine() string {
	return noKey + " " + noKeyHash + " # without a key nobody is let in; codex-proxy keys open changes that"
}

// IsClosedLine reports whether a line of a key file is ClosedLine, whatever its
// comment.
func IsClosedLine(line string) bool {
	fields := Fields(line)
	return len(fields) == 2 && fields[0] == noKey && fields[1] == noKeyHash
}

// checkName is an error if a key may not have the name.
func checkName(name string) error {
	if len(name) > 64 || !validName.MatchString(name) {
		return fmt.Errorf("key name %q must be 1 to 64 of A-Z a-z 0-9 _ . -", name)
	}
	return nil
}

// Parse reads a key file: a line is a name, the SHA-256 of the key in hex, and the
// key's limits as Limits.Words writes them; # begins a comment. ClosedLine may be
// among them. Errors name the line and never repeat a word that may be a key.
func Parse(r io.Reader) (*Keys, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("the key file is larger than %d bytes", maxFile)
	}
	if err != nil {
		return nil, err
	}
	t := &table{}
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		fields := Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if IsClosedLine(lines.Text()) {
			t.closed = true
			continue
		}
		key, err := parseKey(fields)
		if err == nil && seen[key.Name] {
			err = fmt.Errorf("key %q stands here twice", key.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		seen[key.Name] = true
		t.keys = append(t.keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	keys := &Keys{}
	keys.table.Store(t)
	return keys, nil
}

// Usable returns the lines of a key file that this version can use, and the names of the other keys. A newer version
// may know more limits, and no key is used with fewer of them.
func Usable(text string) (usable string, refused []string) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		fields := Fields(line)
		if len(fields) == 0 || IsClosedLine(line) {
			usable += line
			continue
		}
		_, err := parseKey(fields)
		if err == nil && !seen[fields[0]] {
			usable += line
		} else {
			refused = append(refused, nameOf(fields))
		}
		seen[fields[0]] = true
	}
	return usable, refused
}

// nameOf is the name in a line, unless the word may be a key.
func nameOf(fields []string) string {
	if key, err := parseKey(fields[:min(len(fields), 2)]); err == nil {
		return key.Name
	}
	return "(a line that has no key)"
}

// Fields are the words of a line of the key file, without its comment.
func Fields(line string) []string {
	words, _, _ := strings.Cut(line, "#")
	return strings.Fields(words)
}

func parseKey(fields []string) (Key, error) {
	var key Key
	if len(fields) < 2 || checkName(fields[0]) != nil {
		return key, errors.New("want NAME and the key's SHA-256 in hex; codex-proxy keys add NAME writes such a line")
	}
	hash, err := hex.DecodeString(fields[1])
	if err != nil || len(hash) != len(key.hash) {
		return key, errors.New("the second word must be a SHA-256 in hex (64 digits), never the key itself; " +
			"codex-proxy keys add NAME writes such a line")
	}
	key.Name = fields[0]
	copy(key.hash[:], hash)
	for _, word := range fields[2:] {
		name, value, ok := strings.Cut(word, "=")
		if !ok { // it may be a key
			return key, errors.New("a word after the hash must have the form LIMIT=VALUE, " +
				"as codex-proxy keys add writes it")
		}
		if err := key.Limits.Set(name, value); err != nil {
			return key, err
		}
	}
	return key, nil
}
