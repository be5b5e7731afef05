package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPage(t *testing.T) {
	var page strings.Builder
	var r Report
	r.Add("systemd", []Finding{ok("", "version 257")})
	r.Add("units", []Finding{warn("a.service", "is\nodd", "look"), fail("b.service", "is stopped", "start it")})
	require.NoError(t, r.Write(&page))
	assert.Equal(t, `ok    systemd       version 257
warn  units         a.service: is odd
                    -> look
fail  units         b.service: is stopped
                    -> start it

1 ok, 1 warn, 1 fail
`, page.String())
	assert.False(t, r.OK)
}

// What a server answers goes to the terminal of root.
func TestPageIsPrintable(t *testing.T) {
	var r Report
	r.Add("dependencies", []Finding{fail("dependency db", "UNAVAILABLE: \x1b]0;x\a\nb\u009bé", "look at \x1b[2J")})
	var page strings.Builder
	require.NoError(t, r.Write(&page))
	assert.Contains(t, page.String(), "dependency db: UNAVAILABLE: ?]0;x? b?é\n")
	assert.Contains(t, page.String(), "-> look at ?[2J\n")
}
