package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNeighbours are there, and run when a test says so and not before.
func TestNeighbours(t *testing.T) {
	b := bootBed(t, neighbours())
	for _, unit := range []string{"prometheus", "prometheus-node-exporter", "haproxy", "nginx", "caddy"} {
		out, _, err := b.Run(t.Context(), "systemctl", "show", "--value", "-p", "LoadState", "-p", "ActiveState", unit)
		require.NoError(t, err)
		assert.Equal(t, "loaded\ninactive\n", out, unit)
	}
}
