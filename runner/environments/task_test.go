package environments

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// Room that is being made counts: a second look does not remove more than the first.
func TestRoomThatIsBeingMade(t *testing.T) {
	var all []store.Environment
	for _, c := range []string{"a", "b", "c"} {
		all = append(all, store.Environment{Key: strings.Repeat(c, 64), State: store.EnvironmentReady, Bytes: 45})
	}
	for _, one := range all {
		assert.NoError(t, paths.CheckEnvironment(one.Key))
	}
	e := New(Settings{Config: Config{MaxBytes: 100}})
	assert.True(t, e.removeBeyond(all, 135))
	assert.False(t, e.removeBeyond(all, 135), "the room is being made")
	assert.Len(t, e.tasks, 1)
	assert.Contains(t, e.tasks, all[0].Key)
}
