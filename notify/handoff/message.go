package handoff

import (
	"encoding/json"
	"fmt"
	"os"
)

// Version is the version of the messages that this package sends. Messages of version 0
// carry none: processes of codex-proxy 0.1.0 send these. A new meaning gets a new kind;
// a kind of an existing version only gains fields.
const Version = 1

// Kind is the kind of a message.
type Kind string

// The kinds of the hand-off itself.
const (
	hello  Kind = "hello"
	ready  Kind = "ready"
	failed Kind = "failed"
	take   Kind = "take"
	taken  Kind = "taken"
)

// The kinds that follow the hand-off, for as long as both processes run.
const (
	// Drain orders the old process to take no new turns, as the unit stops.
	Drain Kind = "drain"
	// Hasten orders the old process to cut its turns off.
	Hasten Kind = "hasten"
	// Drains carries a change of the workers that take no new turns, to the old process.
	Drains Kind = "drains"
	// Keys carries the text of the key file in force, to the old process.
	Keys Kind = "keys"
	// Load carries the work in flight of the new process and the processes after it.
	Load Kind = "load"
	// Link carries a connection that the new process goes on with, and its descriptors.
	Link Kind = "link"
	// Recent carries the last requests and the numbers of the old process, in a file.
	Recent Kind = "recent"
	// Ended carries a request that has ended in the old process.
	Ended Kind = "ended"
	// Turns carries the work in flight of the old process and the processes before it.
	Turns Kind = "turns"
)

// Message is one message from the other process after the hand-off.
type Message struct {
	Kind    Kind
	Version int // of the sender; 0: it sends none
	Body    json.RawMessage
	Files   []*os.File // sent with it; the receiver closes them
}

// packet is one message on the wire.
type packet struct {
	Kind    Kind            `json:"kind"`
	Version int             `json:"version,omitempty"`
	Names   []string        `json:"names,omitempty"`   // hello: one for each socket
	Serving bool            `json:"serving,omitempty"` // ready: requests would succeed
	Text    string          `json:"text,omitempty"`    // ready: the status; failed: the reason
	State   json.RawMessage `json:"state,omitempty"`   // the body of all other kinds
}

// packetLimit bounds one message, and so the state that a successor gets, in bytes.
const packetLimit = 128 << 10

// encode returns the bytes of p, or an error if they exceed packetLimit.
func (p packet) encode() ([]byte, error) {
	p.Version = Version
	data, err := json.Marshal(p)
	if err == nil && len(data) > packetLimit {
		err = fmt.Errorf("a message of %d bytes is too long", len(data))
	}
	return data, err
}
