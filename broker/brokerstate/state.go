// Package brokerstate has the state that a broker writes into a file of its unit, and that the daemon reads: its
// requests, its connections, and the reason of the last failure to reach the endpoint.
package brokerstate

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// State is the state of one broker. Its counts begin with its process.
type State struct {
	Endpoint string            `json:"endpoint"` // without a login and a query
	Requests map[string]uint64 `json:"requests"` // by their kind
	Tokens   map[string]Tokens `json:"tokens"`   // by the kind of their request
	Streams  int               `json:"streams"`  // requests in flight
	Line     Line              `json:"line"`
	// Began is when the process did, and Hidden has its last hidden uses, the oldest first.
	Began  time.Time `json:"began"`
	Hidden []Hidden  `json:"hidden,omitempty"`
	// Accounts are those with paths of their own, and Limits has their quotas by the last answers.
	Accounts []string          `json:"accounts,omitempty"`
	Limits   map[string]Limits `json:"limits,omitempty"`
}

// Limits are the quota of an account by an answer.
type Limits struct {
	At     time.Time       `json:"at"`
	Limits json.RawMessage `json:"limits"` // as the object rateLimits of codex's account/rateLimits/updated
}

// Tokens are the tokens of answers, as the endpoint counts them.
type Tokens struct {
	Input  uint64 `json:"input"`
	Cached uint64 `json:"cached"` // of the input
	Output uint64 `json:"output"`
}

// Line is the state of the connections to the endpoint.
type Line struct {
	Connections int               `json:"connections"`
	Sockets     int               `json:"sockets"`   // of the connections, the WebSockets of long conversations
	Continued   uint64            `json:"continued"` // requests of which only the new part went up
	Sent        uint64            `json:"sent"`      // bytes of connections
	Received    uint64            `json:"received"`
	Connect     Histogram         `json:"connect"` // with the resolution of the name
	TLS         Histogram         `json:"tls"`
	FirstByte   Histogram         `json:"first_byte"`
	Failures    map[string]uint64 `json:"failures"` // by their reason
	Failure     *Failure          `json:"failure,omitempty"`
}

// Failure is the last failure to reach the endpoint.
type Failure struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	// Over: the endpoint has answered since.
	Over bool `json:"over,omitempty"`
}

// Bounds are the upper bounds of the buckets of a Histogram, in seconds.
var Bounds = [...]float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// Histogram counts durations.
type Histogram struct {
	Buckets [len(Bounds)]uint64 `json:"buckets"` // each without the smaller ones
	Count   uint64              `json:"count"`
	Seconds float64             `json:"seconds"` // their sum
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	s := d.Seconds()
	h.Count++
	h.Seconds += s
	for i, bound := range Bounds {
		if s <= bound {
			h.Buckets[i]++
			return
		}
	}
}

// file is the name in the directory of a broker. longest bounds the file, in bytes: a broker writes the limits of 32
// accounts and MostHidden uses at most.
const (
	file    = "state.json"
	longest = 256 << 10
)

// Write replaces the file in a directory.
func (s *State) Write(dir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	next := filepath.Join(dir, "."+file)
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return fmt.Errorf("cannot write the state of the broker: %w", err)
	}
	if err := os.Chmod(next, 0o644); err != nil { // the umask takes that from others
		return err
	}
	return os.Rename(next, filepath.Join(dir, file))
}

// Read reads the file in a directory, which belongs to another user.
func Read(dir string) (*State, error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", f.Name())
	}
	s := &State{}
	if err := json.NewDecoder(io.LimitReader(f, longest)).Decode(s); err != nil {
		return nil, fmt.Errorf("%s has no state of a broker: %w", f.Name(), err)
	}
	if texts := s.Endpoint + s.reason(); strings.ContainsFunc(texts, unprintable) {
		return nil, fmt.Errorf("%s has text that a terminal must not get", f.Name())
	}
	return s, nil
}

func (s *State) reason() string {
	if s.Line.Failure == nil {
		return ""
	}
	return s.Line.Failure.Reason
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
