package auth

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Keys of a database are usable for a while after it has confirmed them, and never open the API.
func TestKeysOfADatabaseAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &Keys{}
		assert.True(t, own.Open())
		assert.False(t, own.Outdated() || own.Doubtful() || own.Shared(), "keys of a file have no age")

		keys := &Keys{}
		keys.Confirm(time.Time{}, time.Hour)
		assert.False(t, keys.Open(), "the database has not answered yet")
		assert.True(t, keys.Outdated())
		keys.Confirm(time.Now().Add(time.Hour), time.Hour)
		<-time.After(time.Second)
		assert.False(t, keys.Outdated() || keys.Doubtful())
		<-time.After(fresh)
		assert.True(t, keys.Doubtful())
		assert.False(t, keys.Outdated())
		<-time.After(time.Hour)
		assert.True(t, keys.Outdated(), "a time to come, by a clock that has been set back since, counts as now")
	})
}
