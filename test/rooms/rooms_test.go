package rooms

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of CONTRIBUTING.md anew")

const top = "../.."

// TestLayers has one layer for each room. The commands are above all layers.
func TestLayers(t *testing.T) {
	packages, err := Packages(top)
	require.NoError(t, err)
	var rooms []string
	for _, p := range packages {
		room, _, _ := strings.Cut(p.Path, "/")
		if room != "cmd" && !slices.Contains(rooms, room) {
			rooms = append(rooms, room)
		}
	}
	layers, err := Layers(top)
	require.NoError(t, err)
	assert.ElementsMatch(t, rooms, layers, "give a new room a rule of depguard in .golangci.yml")
}

// TestTable has the table in CONTRIBUTING.md.
func TestTable(t *testing.T) {
	packages, err := Packages(top)
	require.NoError(t, err)
	const file, begin, end = top + "/CONTRIBUTING.md", "<!-- rooms: go test ./test/rooms -update -->\n", "<!-- /rooms -->\n"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(data), begin)
	require.True(t, ok, "CONTRIBUTING.md has no line %q", begin)
	table, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "CONTRIBUTING.md has no line %q", end)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+Table(packages)+end+after), 0o644))
		return
	}
	assert.Equal(t, Table(packages), table, "write it anew: go test ./test/rooms -update")
}
