package accounts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	. "codex-proxy/workers/accounts"
)

func TestWindowNames(t *testing.T) {
	for minutes, want := range map[int64]string{
		300: "5h", 299: "5h", 302: "5h", 10080: "7d", 10079: "7d", 1440: "1d", 43200: "30d", 60: "1h", 90: "90m",
		15: "15m", 1: "1m", 304: "304m",
	} {
		assert.Equal(t, want, NewWindow(minutes, 0, time.Time{}).Name, minutes)
	}
	assert.Zero(t, NewWindow(60, 3, time.Time{}).Left(), "a share is at most all")
}
