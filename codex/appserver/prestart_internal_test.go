package appserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPrestartedThreadsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted, other := fingerprint{1}, fingerprint{2}
		p := prestart{threads: []prestarted{{wanted, "a", time.Now()}, {other, "b", time.Now()},
			{wanted, "", time.Time{}}}}
		<-time.After(maxPrestartAge / 2)
		p.threads = append(p.threads, prestarted{wanted, "c", time.Now()}, prestarted{wanted, "d", time.Now()})
		<-time.After(maxPrestartAge/2 + time.Second)
		id, expired := p.claim(wanted)
		assert.Equal(t, "c", id)
		assert.Equal(t, []string{"a", "b"}, expired)
		assert.Len(t, p.threads, 2, "one is being started, one is left")
	})
}
