// Package reasoning marks the encrypted reasoning of the model with its maker. Reasoning is encrypted for the account
// that made it: the model endpoint refuses a conversation with reasoning of another account. An origin of the worker
// stands in front of the encrypted text, which a client sends back as it is; so its maker is known after a restart,
// too. Reasoning without an origin is of an unknown account: it is left out where the next turn may run on another
// account than this one.
package reasoning

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"codex-proxy/proxy/turn"
)

// Origin identifies a worker without its name.
func Origin(worker string) string {
	sum := sha256.Sum256([]byte(worker))
	return "worker-" + hex.EncodeToString(sum[:6]) + ":"
}

// Split takes the origin off; the origin is empty if the account of the reasoning is unknown.
func Split(encrypted string) (origin, rest string) {
	n := len(Origin(""))
	if len(encrypted) < n || !strings.HasPrefix(encrypted, "worker-") || encrypted[n-1] != ':' {
		return "", encrypted
	}
	return encrypted[:n], encrypted[n:]
}

// Fitting returns the origins of the reasoning that a worker can read. The empty origin stands
// for reasoning from elsewhere.
func Fitting(turns *turn.Runner, worker string) (origins []string) {
	same := turns.SameAccount(worker)
	for _, name := range same {
		origins = append(origins, Origin(name))
	}
	if !turns.Rotates() || len(same) == len(turns.Pool.Names()) {
		origins = append(origins, "")
	}
	return origins
}
