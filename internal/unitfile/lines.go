// Package unitfile writes lines of unit files for systemd, with values that a person has written elsewhere.
package unitfile

import (
	"bytes"
	"fmt"
)

// Lines are the lines of a unit file.
type Lines struct{ bytes.Buffer }

// Add adds a line.
func (l *Lines) Add(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }
