package accounts

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A reload or a restart is no way past the pause between two rotations.
func TestRotationsOutliveTheirProcess(t *testing.T) {
	b := NewStore(Policy{Rotation: Ordered}, []string{"a", "b"}, func() {})
	b.Rotations.Put("", Rotated{"b", noon})
	b.Rotations.Put("over", Rotated{"b", noon.Add(-RotationPause)})
	b.Rotations.Put("paused", Rotated{"b", noon})
	assert.NotZero(t, b.Revision(), "it is a change")
	text, err := json.Marshal(b.Save())
	require.NoError(t, err)
	var saved Saved
	require.NoError(t, json.Unmarshal(text, &saved))
	assert.Len(t, saved.Rotations, 1)

	next := NewStore(Policy{Rotation: Ordered}, []string{"a", "b"}, func() {})
	next.Restore(saved, noon.Add(time.Second))
	kept := next.Rotations.Find("paused", 0)
	assert.Equal(t, "b", kept.Account)
	assert.Equal(t, noon.Add(RotationPause), kept.Held(noon.Add(time.Second)).UTC())
	assert.Zero(t, next.Rotations.Find("over", 0))

	early := NewStore(Policy{Rotation: Ordered}, []string{"a", "b"}, func() {})
	early.Restore(saved, noon.Add(-time.Hour))
	assert.Equal(t, noon.Add(-time.Hour), early.Rotations.Find("paused", 0).Rotated, "the clock was ahead")

	now := time.Now()
	early.Restore(Saved{Rotations: map[string]Rotated{"now": {"b", now.Round(0)}}}, now.Add(time.Second))
	assert.Contains(t, early.Rotations.Find("now", 0).Rotated.String(), " m=", "on the monotonic clock")
}

func TestRotationsAreBounded(t *testing.T) {
	b := NewStore(Policy{Rotation: Ordered}, []string{"a", "b"}, func() {})
	for i := range maxRotations + 10 {
		b.Rotations.Put(fmt.Sprint(i), Rotated{"b", noon.Add(time.Duration(i) * time.Millisecond)})
	}
	assert.Len(t, b.Save().Rotations, maxRotations)
	assert.Zero(t, b.Rotations.Find("9", 0), "the oldest go first")
	assert.NotZero(t, b.Rotations.Find("10", 0))
}
