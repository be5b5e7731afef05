package fleet

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A host judges others after it has asked without a gap for so long that all of them could renew their leases, however
// the gap came about.
func TestSteady(t *testing.T) {
	for name, gap := range map[string]func(s *steady){
		"start":             func(*steady) {},
		"an error":          func(s *steady) { s.broke(errors.New("refused")) },
		"a hang":            func(s *steady) { time.Sleep(3 * time.Second) },
		"a hang before one": func(s *steady) { time.Sleep(lease); s.went(3) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &steady{}
				ask := func(seconds int) {
					for range seconds {
						time.Sleep(time.Second)
						s.went(3)
					}
				}
				if name != "start" {
					ask(60)
					assert.True(t, s.isSteady())
				}
				gap(s)
				assert.False(t, s.isSteady())
				ask(int(lease / time.Second))
				assert.False(t, s.isSteady())
				ask(4)
				assert.True(t, s.isSteady())
				time.Sleep(3 * time.Second)
				assert.False(t, s.isSteady(), "it is silent itself")
			})
		})
	}
	s := &steady{}
	s.broke(errors.New("refused"))
	assert.False(t, s.foreign)
	s.broke(fmt.Errorf("by the pool: %w", notJoined("host")))
	assert.True(t, s.foreign)
	s.broke(errors.New("refused"))
	assert.True(t, s.foreign, "nothing else is known")
	s.went(1)
	assert.False(t, s.foreign)
}
