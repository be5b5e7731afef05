package copies

import (
	"fmt"

	"codex-proxy/internal/lazyregexp"
)

// Policy is the setting codex of config.toml: Follow, Pinned, or a version, of which units run no other.
type Policy string

// The policies without a version.
const (
	Follow Policy = "follow" // the newest codex that is installed, once it has been tried
	Pinned Policy = "pinned" // the one in use, until the operator says otherwise
)

var version = lazyregexp.New(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]{1,40})?$`)

// ParsePolicy is the policy of a text.
func ParsePolicy(text string) (Policy, error) {
	if p := Policy(text); p == Follow || p == Pinned || version.MatchString(text) {
		return p, nil
	}
	return "", fmt.Errorf(`%q is neither "follow" nor "pinned" nor a version such as "0.171.0"`, text)
}

// Version is the one version that the policy allows; empty if it names none.
func (p Policy) Version() string {
	if p == Follow || p == Pinned {
		return ""
	}
	return string(p)
}
