package clienttool

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"codex-proxy/internal/lazyregexp"
)

// Names that codex 0.169 keeps to itself, as measured: it refuses every thread with a tool mcp or mcp__…, and hides
// the tools exec_command and shell_command from the model.
var (
	keptNames  = []string{"mcp", "exec_command", "shell_command"}
	keptPrefix = "mcp__"
)

const (
	// clientPrefix precedes a name that codex keeps to itself.
	clientPrefix = "client_"
	// maxMadeName is the length of a name in the OpenAI reference. Names that are made here keep to it, although
	// codex takes longer ones: the model endpoint may not.
	maxMadeName = 64
)

// WireName is the name of a client's tool for codex and the model; namespace may be empty. It is the same in every
// request, so calls in the history need no list of tools. Tools of different names have different wire names, unless
// one of them is in a namespace: the tool b of the namespace a and the function a__b have the same.
func WireName(namespace, name string) string {
	made := name
	if namespace != "" {
		made = namespace + "__" + name
	}
	if isKept(made) {
		made = clientPrefix + made
	}
	if made != name && len(made) > maxMadeName {
		return shortName(made)
	}
	return made
}

// isKept reports whether codex keeps the name to itself, or the name has the form of one that is made here: no name of
// a client may be equal to a made one.
func isKept(name string) bool {
	for strings.HasPrefix(name, clientPrefix) {
		name = name[len(clientPrefix):]
	}
	return slices.Contains(keptNames, name) || strings.HasPrefix(name, keptPrefix) || shortNames.MatchString(name)
}

var shortNames = lazyregexp.New(`^t_[0-9a-f]{16}_`)

// shortName has a hash of the name and its end, which distinguishes tools of one server.
func shortName(name string) string {
	sum := sha256.Sum256([]byte(name))
	short := "t_" + hex.EncodeToString(sum[:8]) + "_"
	return short + name[max(0, len(name)-maxMadeName+len(short)):]
}

// Name is the name of a tool as its client knows it.
type Name struct{ Namespace, Name string }

func (n Name) wire() string { return WireName(n.Namespace, n.Name) }
