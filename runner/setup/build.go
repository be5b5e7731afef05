package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Build makes a commit ready outside of any session. Its additions to the checkout and to HOME become a snapshot, which
// sessions begin with.
type Build struct {
	Scope  Scope  `json:"scope"`
	URL    string `json:"url,omitempty"` // of the repository: relative URLs of submodules begin here
	Commit string `json:"commit"`
	// Source has the packages of a build without the network, and the set-up that the session gave, if it did.
	Source
	// Ready are snapshots that are there, the last used first: of those, none is made, and a new one begins with one of
	// the same family.
	Ready []Snapshot `json:"ready,omitempty"`
	// From is the key of the snapshot that the build begins with, or "". It is one of the same user. As names the
	// result then: the place has more than the commit.
	From string   `json:"from,omitempty"`
	As   Snapshot `json:"as,omitzero"`
	// Test has the build run the script's Test alone, on the files of From. Its unit has no network.
	Test bool `json:"test,omitempty"`
}

// Snapshot names the files of a build.
type Snapshot struct {
	Key    string `json:"key,omitempty"`
	Family string `json:"family,omitempty"` // SnapshotKey of the scope and of Order.Family
}

// Tested names the snapshot with the results of the script's Test besides.
func (s Snapshot) Tested() Snapshot {
	return Snapshot{Key: sum([]string{s.Key, "tested"}), Family: s.Family}
}

// Scope bounds which sessions get a snapshot. Those of another user or repository do not: it has files of both.
type Scope struct {
	User       string `json:"user"`       // user ID
	Repository string `json:"repository"` // key
	Online     bool   `json:"online"`     // the build has the network
	// Env has the variables of the command, which the script may use.
	Env map[string]string `json:"env,omitempty"`
}

// Sum names the scope.
func (s Scope) Sum() string { return sum(s) }

// Key names the build: the SHA-256, in hexadecimal digits, of the fields that decide its result.
func (b Build) Key() string {
	b.Ready, b.From, b.As, b.Test = nil, "", Snapshot{}, false
	return sum(b)
}

// SnapshotKey names the snapshot of a script in a scope: by the scope's sum, and the key of the order.
func SnapshotKey(scope, order string) string { return sum([]string{scope, order}) }

// Named returns the snapshot of an order. Its family has the same variables of the command: files may have their
// values, such as a token.
func (s Scope) Named(o Order) Snapshot {
	return Snapshot{Key: SnapshotKey(s.Sum(), o.Key()), Family: SnapshotKey(s.Sum(), o.Family())}
}

func sum(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and bytes have no error
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}
