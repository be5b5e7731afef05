package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Without namespaces of its own, it changes nothing. Package namespaces tests what it does in them.
func TestRun(t *testing.T) {
	for status, args := range map[int][]string{64: nil, 203: {"{}", "--", "/bin/true"}} {
		assert.Equal(t, status, run(args), args)
	}
	assert.Equal(t, 64, run([]string{"{}", "/bin/true", "x"}))
}
