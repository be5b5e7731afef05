package inflight

import (
	"maps"

	"codex-proxy/proxy/limits"
	"codex-proxy/workers"
)

// Load is the load of one process of a row, together with processes farther away from
// the receiver.
type Load struct {
	Workers map[string]workers.Load  `json:"workers,omitempty"`
	Keys    map[string]limits.KeyUse `json:"keys,omitempty"`
	// Waiting reports whether requests wait for a place.
	Waiting bool `json:"waits,omitempty"`
	// Claims is the number of claims that are part of the load.
	Claims uint64 `json:"claims,omitempty"`
	// Confirmed is the number of the receiver's claims that the sender has counted.
	Confirmed uint64 `json:"heard,omitempty"`
}

// Plus returns the sum of both loads, without the numbers of claims.
func (l Load) Plus(o Load) Load {
	sum := Load{Workers: maps.Clone(l.Workers), Keys: maps.Clone(l.Keys), Waiting: l.Waiting || o.Waiting}
	if sum.Workers == nil {
		sum.Workers = map[string]workers.Load{}
	}
	for name, load := range o.Workers {
		sum.Workers[name] = sum.Workers[name].Plus(load)
	}
	if sum.Keys == nil {
		sum.Keys = map[string]limits.KeyUse{}
	}
	for name, use := range o.Keys {
		sum.Keys[name] = sum.Keys[name].Plus(use)
	}
	return sum
}
