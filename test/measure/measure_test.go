package main

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// want is the output for testdata/tree. Its file server.go and route.go, server.go
// and request.go, request.go and finish.go use each other.
const want = `packages, without tests
    package  files  lines  arrows  in cycles  share  back  share
    proxy        4     55       8          8  100 %     3   38 %
    workers      1      6       0          0      -     0      -

types with the most methods
    type           methods  in files
    proxy.Server         6         3
    proxy.now            1         1
    proxy.request        0         0
    proxy.route          0         0
    proxy.runner         0         0

structs that most files touch
    struct         fields  touched in  written in
    proxy.Server        2           4           1
    proxy.request       1           2           1
    proxy.route         3           2           0

walks of a request, from its route
    from                                     steps  above  files  returns  most entered file  times
    POST /v1/chat/completions to the worker      5      4      4        1   proxy/request.go      2
    POST /v1/chat/completions everything         7      6      5        2   proxy/request.go      2

words of speech (told, tell, said, say, heard, hear, ...)
    in                                  comments  strings  identifiers  all
    product (Go)                               2        1            2    5
    tests (Go)                                 0        1            0    1
    documents (*.md)                                                      2
    other files of packaging, deb, rpm                                    1

lines over 120 columns
    in            lines  over  per 1000
    product (Go)     61     0       0.0
    tests (Go)        6     1     166.7

`

func TestMeasure(t *testing.T) {
	var out strings.Builder
	require.NoError(t, measure(options{dir: "testdata/tree", packages: 2, records: 3}, &out))
	assert.Equal(t, want, out.String())
}

func TestSteps(t *testing.T) {
	tree, err := load("testdata/tree")
	require.NoError(t, err)
	walks, err := tree.walks([]string{"proxy.Server.begin"})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"  1 proxy.Server.begin (proxy/request.go)",
		"  2   proxy.finish (proxy/finish.go)",
		"  3     proxy.now.run (proxy/request.go)",
		"  4       workers.Acquire (workers/pool.go)",
	}, walks[2].lines())

	_, err = tree.walks([]string{"proxy.Server.nothing"})
	assert.ErrorContains(t, err, "there is no function proxy.Server.nothing")
}

// In a random graph without cycles no arrow leads back; each arrow that is
// turned around adds one at most.
func TestOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		g, turned := graph{}, 0
		for i := range 12 {
			g[name(i)] = map[string]bool{}
		}
		for i := range 12 {
			for j := range i {
				if r.IntN(3) == 0 {
					g[name(i)][name(j)] = true
				}
			}
		}
		assert.Zero(t, g.back(), "seed %d", seed)
		assert.Zero(t, g.inCycles(), "seed %d", seed)
		if to := g[name(0)]; !g[name(5)][name(0)] {
			to[name(5)], turned = true, turned+1
		}
		assert.LessOrEqual(t, g.back(), turned, "seed %d", seed)
	}
}

func name(i int) string { return string(rune('a' + i)) }

// TestBars holds this tree to its bars.
func TestBars(t *testing.T) {
	assert.NoError(t, measure(options{dir: "../..", bars: true}, io.Discard))
}
