package logs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLogsExpire(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	logs := []Kept[string]{
		{"new", 10, ago(time.Minute)},
		{"old", 10, ago(time.Hour)},
		{"written", 100, time.Time{}},
		{"middle", 10, ago(10 * time.Minute)},
	}
	for name, c := range map[string]struct {
		keep Retention
		want []string
	}{
		"all fit":               {Retention{time.Hour, 130}, nil},
		"too old":               {Retention{30 * time.Minute, 1000}, []string{"old"}},
		"too many bytes":        {Retention{24 * time.Hour, 129}, []string{"old"}},
		"many bytes too many":   {Retention{24 * time.Hour, 110}, []string{"old", "middle"}},
		"a written one is kept": {Retention{0, 0}, []string{"old", "middle", "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, Expired(logs, c.keep, now))
		})
	}
	assert.Empty(t, Expired([]Kept[int](nil), Retention{}, now))
}
