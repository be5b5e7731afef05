package daemon

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/config"
)

// A start, and a reload with its last steps, must end before systemd ends them.
func TestStartFitsIntoTheUnit(t *testing.T) {
	unit, err := os.ReadFile("../packaging/systemd/codex-proxy.service")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^TimeoutStartSec=(.*)$`).FindSubmatch(unit)
	require.NotNil(t, found)
	limit, err := time.ParseDuration(string(found[1]))
	require.NoError(t, err)
	assert.Less(t, max(storeBound, 2*handoffMargin)+config.MaxStart, limit)
}
