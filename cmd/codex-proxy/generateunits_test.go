package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each fault is a line of its own, and both their number and their length are bounded.
func TestFaultsOfTheGenerator(t *testing.T) {
	t.Setenv("SYSTEMD_SCOPE", "")
	var out bytes.Buffer
	logFaults(&out, nil)
	assert.Empty(t, out.String())
	prefix := fmt.Sprintf("<4>codex-units[%d]: ", os.Getpid())
	logFaults(&out, errors.Join(errors.New("a.toml:1: x"), errors.New("b.toml:2: y")))
	assert.Equal(t, prefix+"a.toml:1: x\n"+prefix+"b.toml:2: y\n", out.String())
	out.Reset()
	logFaults(&out, errors.New(strings.Repeat(strings.Repeat("z", 2000)+"\n", 50)))
	assert.Equal(t, strings.Repeat(prefix+strings.Repeat("z", longestFault)+"\n", mostFaults), out.String())
}
