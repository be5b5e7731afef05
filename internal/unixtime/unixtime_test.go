package unixtime

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimesFromOutside(t *testing.T) {
	now := time.Date(2026, 11, 28, 6, 30, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		number int64
		want   time.Time
	}{
		"seconds":            {now.Unix(), now},
		"milliseconds":       {now.UnixMilli(), now},
		"microseconds":       {now.UnixMicro(), now},
		"nanoseconds":        {now.UnixNano(), now},
		"none":               {0, time.Time{}},
		"negative":           {-1, time.Time{}},
		"the least":          {math.MinInt64, time.Time{}},
		"the last":           {latest, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
		"one after":          {latest + 1, time.Unix((latest+1)/1000, 0).UTC()},
		"the largest number": {math.MaxInt64, time.Unix(math.MaxInt64/1_000_000_000, 0).UTC()},
	} {
		got := Of(tc.number)
		assert.Equal(t, tc.want, got, name)
		_, err := json.Marshal(got)
		require.NoError(t, err, name)
	}
}
