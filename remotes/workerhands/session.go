package workerhands

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/internal/statefile"
	"codex-proxy/remotes/hands"
)

// session is the session of one conversation. Sessions guards it, but for record's first part, which does not change.
type session struct {
	record

	dir    string
	hands  *hands.Hands // nil: no exec-server runs
	end    func()       // ends Run of hands, and waits for it
	change *change      // that is under way; nil: none
	users  int          // turns
	used   time.Time    // when the last of them ended
	// checkouts is how many new ones the workspace had since this process began; a client knows of the second number.
	checkouts, told int
}

// record outlives the process.
type record struct {
	Key    string `json:"key"` // name of the API key
	Name   string `json:"name"`
	OfTurn bool   `json:"of_turn,omitempty"`
	Slot   int    `json:"slot"` // of the worker: codex knows an environment for each
	// Run is the path of the address at which codex reaches the exec-server, and codex sends Token. An exec-server gets
	// new ones, unless codex waits for it at the old address; empty: codex has no address.
	Run   string `json:"run,omitempty"`
	Token string `json:"token,omitempty"`
}

// change is something that a session undergoes alone.
type change struct {
	kind changeKind
	done chan struct{}
	err  error // when done is closed; of opening alone
}

type changeKind int

const (
	opening   changeKind = iota // an exec-server starts
	closing                     // it ends
	finishing                   // the session ends
)

// idOf is the name of the directory of a session. Sessions of two API keys have two directories, also with one name.
func idOf(key, name string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", key, name))
	return hex.EncodeToString(sum[:16])
}

const (
	recordName = "session.json"
	// mostRecord bounds its size, in bytes.
	mostRecord = 16 << 10
)

// write writes a record into the directory of its session. The file system may be busy for long.
func write(dir string, r record) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return statefile.Write(filepath.Join(dir, recordName), r)
}

// crashGrace is how long a session of one turn waits for that after a crash of this process.
const crashGrace = 10 * time.Second

// readSession reads the record in a directory.
func readSession(dir string) (*session, error) {
	s := &session{dir: dir, used: time.Now().Add(crashGrace)}
	err := statefile.Read(filepath.Join(dir, recordName), "a session", mostRecord, &s.record)
	return s, err
}

// hasBegun reports whether codex-runner has a session.
func (s *session) hasBegun() bool {
	id, err := hands.SessionOf(s.dir)
	return id != "" || err != nil
}

// isIdle reports whether no turn has the session, and nothing changes it.
func (s *session) isIdle() bool { return s.users == 0 && s.change == nil }
