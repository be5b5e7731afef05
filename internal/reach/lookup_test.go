package reach

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLookup(t *testing.T) {
	a, err := Lookup("root")
	require.NoError(t, err)
	assert.Equal(t, Account{Groups: []uint32{0}}, Account{UID: a.UID, GID: a.GID, Groups: a.Groups[:1]})
	_, err = Lookup("no-such-user")
	assert.ErrorContains(t, err, "no-such-user")
}
