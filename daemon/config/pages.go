package config

import (
	"fmt"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/proxy/auth"
)

// Pages is the place of cors_origins, which lets web pages use the API: FILE:LINE or
// an option. Empty: no page may.
type Pages string

// Check is an error if pages may use the API while there is no key. A page needs a
// key: a browser on this machine also runs pages of strangers.
func (p Pages) Check(keys *auth.Keys) error {
	if p == "" || !keys.Empty() || keys.Shared() {
		return nil
	}
	return fmt.Errorf("%s: cors_origins: lets web pages use the API with a key of their own, and there is no key; "+
		"codex-proxy keys add NAME, or take cors_origins out", p)
}

var originsLine = lazyregexp.New(`^[ \t]*["']?cors_origins["']?[ \t]*=`)

// pagesIn finds cors_origins in the text of the file at path, unless one of set has it.
func pagesIn(path string, text []byte, set []string) Pages {
	for _, s := range set {
		if key, _, _ := strings.Cut(s, "="); strings.TrimSpace(key) == "cors_origins" {
			return "--set cors_origins"
		}
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; originsLine.MatchString(line) {
			return Pages(fmt.Sprintf("%s:%d", path, n))
		}
	}
	return Pages(path)
}
