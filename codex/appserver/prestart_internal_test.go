package appserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Turns that start at once have as many threads ready from then on, for a time.
func TestBurstIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := prestart{}
		f := fingerprint{1}
		assert.False(t, p.remember(f))
		for range 2 {
			assert.True(t, p.remember(f))
		}
		assert.Equal(t, 3, p.burst(f))
		<-time.After(2 * burstSpan)
		assert.True(t, p.remember(f))
		assert.Equal(t, 3, p.burst(f))
		<-time.After(maxPrestartAge)
		assert.True(t, p.remember(f))
		assert.Equal(t, 1, p.burst(f))
	})
}

// A start that codex never answers does not hold up the next ones for ever.
func TestPrestartsDoNotWaitForAHungStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := prestart{turns: 1, turned: time.Now(), waiting: []*threadStart{{}, {}}}
		assert.Nil(t, p.next())
		<-time.After(hungStart)
		assert.NotNil(t, p.next())
		assert.Nil(t, p.next())
		<-time.After(hungStart)
		assert.NotNil(t, p.next())
	})
}

// Codex starts the threads that no turn needs yet one at a time, and none while a turn starts.
func TestPrestartsWait(t *testing.T) {
	p := prestart{turns: 1, turned: time.Now()}
	f := fingerprint{1}
	p.remember(f)
	p.remember(f)
	for range 3 {
		assert.Empty(t, p.reserve(&threadStart{fingerprint: f}, 8))
	}
	assert.Equal(t, 2, p.count(f), "as many as start at once")
	assert.Nil(t, p.next())
	p.turns = 0
	assert.NotNil(t, p.next())
	assert.Nil(t, p.next())
	p.started(f, "a")
	assert.NotNil(t, p.next())
	p.started(f, "")
	assert.Equal(t, 1, p.count(f))
	assert.Nil(t, p.next())
}

// Threads of one kind give way to another kind, until both have as many.
func TestPrestartsShare(t *testing.T) {
	now := time.Now()
	a, b := fingerprint{1}, fingerprint{2}
	p := prestart{threads: []prestarted{{a, "1", now}, {a, "2", now}, {a, "3", now}}}
	for range 3 {
		p.remember(b)
	}
	assert.Equal(t, "1", p.reserve(&threadStart{fingerprint: b}, 3))
	assert.Equal(t, "2", p.reserve(&threadStart{fingerprint: b}, 3))
	assert.Empty(t, p.reserve(&threadStart{fingerprint: b}, 3))
	assert.Equal(t, 2, p.count(b))
}

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
