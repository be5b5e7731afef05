package probes

import (
	"fmt"
	"time"
)

// Database is the published state of the database that several hosts share.
type Database struct {
	Server string    `json:"server,omitempty"` // HOST:PORT; programs on the network do not get it
	Away   bool      `json:"away"`
	Since  time.Time `json:"since"`            // when Away took its value
	Reason string    `json:"reason,omitempty"` // of a database that is away; for operators alone
}

// Sentence describes a database for operators if it is away. It is empty for others.
func (d *Database) Sentence() string {
	if d == nil || !d.Away {
		return ""
	}
	return fmt.Sprintf("the database at %s is away since %s: %s", d.Server,
		d.Since.UTC().Format(time.RFC3339), d.Reason)
}

// forAnyone is the part that programs on the network get.
func (d *Database) forAnyone() *Database {
	if d == nil {
		return nil
	}
	return &Database{Away: d.Away, Since: d.Since}
}
