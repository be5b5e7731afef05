package steady

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStepsCountWhenTheyHold(t *testing.T) {
	const day, decade = 24 * time.Hour, 87600 * time.Hour
	var c Clock
	for _, now := range []struct {
		what                 string
		passed, step, behind time.Duration
	}{
		{"no step", day, time.Second, 0},
		{"forward", 10 * time.Second, decade, decade},
		{"it does not hold yet", 59 * time.Minute, 0, decade},
		{"taken back", 10 * time.Second, -decade, 0},
		{"back", 10 * time.Second, -decade, 0},
		{"taken back, which is a step forward", 10 * time.Second, decade, decade},
		{"it holds", time.Hour, 0, 0},
		{"forward", time.Minute, day, day},
		{"and again", 59 * time.Minute, day, 2 * day},
		{"which has to hold for itself", 59 * time.Minute, 0, 2 * day},
		{"in part taken back", time.Minute, -day, day},
		{"the rest holds", 2 * time.Hour, 0, 0},
	} {
		c.pass(now.passed, now.step)
		assert.Equal(t, now.behind, c.behind, now.what)
	}
}

func TestClockWithoutSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		for range 3 {
			assert.True(t, time.Now().Equal(c.Now()))
			<-time.After(time.Hour)
		}
	})
}
