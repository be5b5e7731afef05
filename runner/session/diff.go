package session

import (
	"encoding/json"
	"errors"
	"fmt"

	"codex-proxy/runner/paths"
)

// DiffStep is the step of paths.UnitProgram that prints, as the next command of a session, the changes of its commands
// in the workspace since it began. That command has the patch of the session as its standard input, and neither an
// environment nor hooks.
const DiffStep = "session-diff"

// DiffOrder is the argument of DiffStep.
type DiffOrder struct {
	Commit string `json:"commit,omitempty"` // of the session, "" without a repository
	// Begin includes the changes that the session began with in addition to a commit of the repository: the changes
	// that were not committed, and its patch.
	Begin bool `json:"begin,omitempty"`
}

// Args returns the command of an order.
func (o DiffOrder) Args() []string {
	text, _ := json.Marshal(o) // it has no value that could fail
	return []string{paths.UnitProgram, DiffStep, string(text)}
}

// IsDiff reports whether a command is DiffStep.
func IsDiff(args []string) bool {
	return len(args) == 3 && args[0] == paths.UnitProgram && args[1] == DiffStep
}

// ParseDiffOrder reads the argument of DiffStep.
func ParseDiffOrder(text string) (o DiffOrder, err error) {
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("cannot read the order: %w", err)
	}
	if o.Commit != "" && !commit.MatchString(o.Commit) {
		return o, errors.New("the commit of the order is no name of a commit")
	}
	return o, nil
}

// DiffReport is the line that DiffStep writes to standard error when the patches are on standard output. The workspace
// is the session's own: nothing in it is to be trusted.
type DiffReport struct {
	// Object is the commit as git has it (git cat-file commit), without its header.
	Object []byte `json:"object,omitempty"`
	Begin  int64  `json:"begin"` // bytes of the first patch, of DiffOrder.Begin
	Bytes  int64  `json:"bytes"` // of both patches
	// SHA256 of both, in hexadecimal: if a secret was hidden in the output, it differs.
	SHA256 string `json:"sha256"`
	// Nested are directories with repositories that a command has made; the patch has none of their files.
	Nested []string `json:"nested,omitempty"`
}
