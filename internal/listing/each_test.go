package listing

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func names(n int) (list []string) {
	for i := range n {
		list = append(list, strconv.Itoa(i))
	}
	return list
}

// 250 questions of 40 ms took 10 s, one after another.
func TestRowsAreMadeSeveralAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		began := time.Now()
		rows, err := Each(t.Context(), names(250), func(_ context.Context, name string) (string, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-time.After(40 * time.Millisecond)
			return name, nil
		})
		require.NoError(t, err)
		assert.Equal(t, names(250), rows, "in their order")
		assert.EqualValues(t, atATime, most.Load())
		assert.Equal(t, 16*40*time.Millisecond, time.Since(began))
	})
}

func TestTheFirstErrorStopsTheRows(t *testing.T) {
	var made atomic.Int64
	_, err := Each(t.Context(), names(1000), func(context.Context, string) (int, error) {
		made.Add(1)
		return 0, errors.New("no bus")
	})
	require.EqualError(t, err, "no bus")
	assert.Less(t, made.Load(), int64(1000))
}
