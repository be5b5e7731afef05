package appserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestThreadsAheadGrowOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted, other := kind{1}, kind{2}
		a := ahead{threads: []early{{wanted, "a", time.Now()}, {other, "b", time.Now()}, {wanted, "", time.Time{}}}}
		<-time.After(aheadAge / 2)
		a.threads = append(a.threads, early{wanted, "c", time.Now()}, early{wanted, "d", time.Now()})
		<-time.After(aheadAge/2 + time.Second)
		id, old := a.take(wanted)
		assert.Equal(t, "c", id)
		assert.Equal(t, []string{"a", "b"}, old)
		assert.Len(t, a.threads, 2, "one is being started, one is left")
	})
}
