package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The tests go on to run each version that a constant names, and the one that was pinned before takes another one's place.
func TestBetween(t *testing.T) {
	for name, tc := range map[string]struct {
		names           []string
		before, version string
		leaves          string
		stays           bool
	}{
		"one is no floor":     {[]string{"codex-0.153.0", "codex-0.154.0"}, "0.169.0", "0.171.0", "codex-0.154.0", true},
		"the newest of two":   {[]string{"codex-0.160.0", "codex-0.154.0"}, "0.171.0", "0.172.0", "codex-0.160.0", true},
		"all are floors":      {[]string{"codex-0.153.0", "codex-0.169.0"}, "0.171.0", "0.172.0", "", false},
		"the same minor one":  {[]string{"codex-0.153.0", "codex-0.160.0"}, "0.171.0", "0.171.1", "", false},
		"it is there already": {[]string{"codex-0.160.0", "codex-0.169.0"}, "0.169.0", "0.171.0", "", false},
		"a floor was pinned":  {[]string{"codex-0.153.0"}, "0.169.0", "0.171.0", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			leaves, stays := between(tc.names, tc.before, tc.version)
			assert.Equal(t, tc.leaves, leaves)
			assert.Equal(t, tc.stays, stays)
		})
	}
}
