package doctor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/units/survey"
)

// A check that hangs is reported, and hides no other.
func TestHang(t *testing.T) {
	b := newBed(t)
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		b.host.Clock = func() (survey.Clock, error) {
			<-hung
			return survey.Clock{}, nil
		}
		began := time.Now()
		r := Examine(t.Context(), b.host)
		assert.LessOrEqual(t, time.Since(began), 30*time.Second)
		assertFound(t, r, want{"fail clock", "no answer within 25s", "dmesg"})
		assertEveryCheck(t, r)
		assert.False(t, r.OK)
		close(hung)
	})
}
