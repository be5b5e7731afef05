package thishost

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClockIsRead(t *testing.T) {
	c, err := clock()
	if err != nil && os.Geteuid() != 0 {
		t.Skip("this container hides its clock")
	}
	require.NoError(t, err)
	assert.False(t, c.Now.IsZero())
}
