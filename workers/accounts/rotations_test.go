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
	b := NewBook(Policy{Rotation: Ordered}, []string{"a", "b"}, func() {})
	b.Rotate("", Rotated{"b", noon})
	b.Rotate("over", Rotated{"b", noon.Add(-RotationPause)})
	b.Rotate("paused", Rotated{"b", noon})
	assert.NotZero(t, b.Revision(), "it is a change")
	text, err := json.Marshal(b.Save())
	require.NoError(t, err)
	var saved Saved
	require.NoError(t, json.Unmarshal(text, &saved))
	assert.Len(t, saved.Rotations, 1)

	next := NewBook(Policy{Rotation: Ordered}, []string{"a", "b"}, func() {})
	next.Restore(saved, noon.Add(time.Second))
	kept := next.Rotation("paused")
	assert.Equal(t, "b", kept.Account)
	assert.Equal(t, noon.Add(RotationPause), kept.Held(noon.Add(time.Second)).UTC())
	assert.Zero(t, next.Rotation("over"))

	early := NewBook(Policy{Rotation: Ordered}, []string{"a", "b"}, func() {})
	early.Restore(saved, noon.Add(-time.Hour))
	assert.Equal(t, noon.Add(-time.Hour), early.Rotation("paused").Rotated, "the clock was ahead")

	now := time.Now()
	early.Restore(Saved{Rotations: map[string]Rotated{"now": {"b", now.Round(0)}}}, now.Add(time.Second))
	assert.Contains(t, early.Rotation("now").Rotated.String(), " m=", "on the monotonic clock")
}

func TestRotationsAreBounded(t *testing.T) {
	b := NewBook(Policy{Rotation: Ordered}, []string{"a", "b"}, func() {})
	for i := range maxRotations + 10 {
		b.Rotate(fmt.Sprint(i), Rotated{"b", noon.Add(time.Duration(i) * time.Millisecond)})
	}
	assert.Len(t, b.Save().Rotations, maxRotations)
	assert.Zero(t, b.Rotation("9"), "the oldest go first")
	assert.NotZero(t, b.Rotation("10"))
}
