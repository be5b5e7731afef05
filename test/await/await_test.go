package await

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A wait of minutes asks a few times a second, and finds what comes early at once.
func TestPace(t *testing.T) {
	for after, questions := range map[time.Duration]int{0: 1, 30 * time.Millisecond: 40, time.Second: 100, time.Minute: 750} {
		synctest.Test(t, func(t *testing.T) {
			began, asked := time.Now(), 0
			True(t, func() bool { asked++; return time.Since(began) >= after }, time.Hour)
			assert.LessOrEqual(t, asked, questions)
			assert.LessOrEqual(t, time.Since(began)-after, max(shortest, min(after/share, longest)))
		})
	}
}

// A question that costs much is asked rarely.
func TestExpensiveQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, spent := time.Now(), time.Duration(0)
		True(t, func() bool {
			<-time.After(200 * time.Millisecond)
			spent += 200 * time.Millisecond
			return time.Since(began) > 10*time.Second
		}, time.Minute)
		assert.LessOrEqual(t, spent, 3*time.Second)
	})
}

// failures counts those of a test.
type failures int

func (f *failures) Errorf(string, ...any) { *f++ }
func (f *failures) FailNow()              { panic(f) }

func TestNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, failed := time.Now(), failures(0)
		require.Panics(t, func() { True(&failed, func() bool { return false }, time.Minute, "why") })
		assert.EqualValues(t, 1, failed)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
