package push

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/console/webpush"
)

// A token is good for an hour, and of too many the oldest of the same browser are forgotten.
func TestTokensEnd(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "push.json"), "public")
	require.NoError(t, err)
	now := time.Now()
	open := func(of, token string) {
		require.NoError(t, s.open([]answer{{Token: sumOf(token), Browser: sumOf(of), Until: now.Add(answerLife)}}, now))
	}
	finds := func(token string, at time.Time) bool {
		_, _, is := s.find(token, at)
		return is
	}
	for _, e := range []string{"e", "f"} {
		require.NoError(t, s.add(browser{Subscription: webpush.Subscription{Endpoint: e}, Key: "k", KeyID: "k 1"}))
	}
	open("e", "a")
	assert.True(t, finds("a", now.Add(answerLife-1)))
	assert.False(t, finds("a", now.Add(answerLife)))
	is, err := s.take("a", now.Add(answerLife))
	require.NoError(t, err)
	assert.False(t, is)
	open("f", "f")
	for i := range maxOpen - 1 {
		open("e", fmt.Sprint(i))
	}
	assert.True(t, finds("a", now))
	open("e", "b")
	assert.Len(t, s.kept.Answers, maxOpen+1)
	assert.False(t, finds("a", now))
	assert.True(t, finds("b", now))
	assert.True(t, finds("f", now), "of another browser")
}

// A full store is read again, whatever its endpoints are.
func TestFullStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "push.json")
	s, err := OpenStore(file, "public")
	require.NoError(t, err)
	var answers []answer
	for i := range maxBrowsers {
		endpoint := fmt.Sprintf("https://%03d%s", i, strings.Repeat("&", 997))
		s.kept.Browsers = append(s.kept.Browsers, browser{Subscription: webpush.Subscription{Endpoint: endpoint,
			P256dh: strings.Repeat("x", 87), Auth: strings.Repeat("x", 22)}, Key: strings.Repeat("k", 64), KeyID: strings.Repeat("i", 64)})
		for range maxOpen {
			answers = append(answers, answer{Token: sumOf("x"), Browser: sumOf(endpoint), Remote: strings.Repeat("r", 64),
				Thread: strings.Repeat("t", 64), Question: strings.Repeat("q", 64), Decisions: []string{accept, decline},
				Until: time.Now().Add(answerLife)})
		}
	}
	require.NoError(t, s.open(answers, time.Now()))
	again, err := OpenStore(file, "public")
	require.NoError(t, err)
	assert.Len(t, again.kept.Answers, maxBrowsers*maxOpen)
	again, err = OpenStore(file, "another")
	require.NoError(t, err)
	assert.Empty(t, again.kept.Browsers, "those of an earlier key")
	assert.Empty(t, again.kept.Answers)
}
