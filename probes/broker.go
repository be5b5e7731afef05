package probes

import (
	"fmt"
	"time"
)

// Broker is the published state of the broker of one worker. Programs on the network do not get it.
type Broker struct {
	Name        string `json:"name"` // of the worker
	Unit        string `json:"unit"`
	ActiveState string `json:"active_state"` // empty: systemd has not reported it
	SubState    string `json:"sub_state"`
	StatusText  string `json:"status_text,omitempty"`
	// The rest is from the broker's own state; without one, it is empty.
	Endpoint    string         `json:"endpoint,omitempty"`
	Connections int            `json:"connections"`
	Streams     int            `json:"streams"`
	Requests    uint64         `json:"requests"` // since the start of the broker
	Failure     *BrokerFailure `json:"last_failure"`
}

// BrokerFailure is the last failure of a broker to reach its endpoint.
type BrokerFailure struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Over   bool      `json:"over"` // the endpoint has answered since
}

// Sentence describes a broker for operators if it cannot reach its endpoint. It is empty for others.
func (b Broker) Sentence() string {
	if b.Failure == nil || b.Failure.Over {
		return ""
	}
	return fmt.Sprintf("broker %s: cannot reach %s (%s); codex-proxy doctor names the remedy", b.Name, b.Endpoint,
		b.Failure.Reason)
}
