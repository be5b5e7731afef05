package transcript

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rest after connections of an owner that were cut keeps nothing from the viewer.
func TestTheRestOfAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newView("t1")
		v.now.Waits = true
		began := time.Now()
		a := asking{view: v, thread: "t1", rest: maxRest, again: began.Add(maxRest)}
		require.NoError(t, a.follow(t.Context()))
		assert.Zero(t, time.Since(began))
		<-a.rested()
		assert.Equal(t, maxRest, time.Since(began))
		v.now.Waits = false
		require.NoError(t, a.follow(t.Context()))
		assert.Nil(t, a.rested())
		assert.Zero(t, a.rest)
	})
}
