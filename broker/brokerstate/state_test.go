package brokerstate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestState(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	s := &State{Endpoint: "https://model.test", Requests: map[string]uint64{"turn": 2}, Streams: 1}
	s.Line.Connect.Add(20 * time.Millisecond)
	s.Line.Connect.Add(time.Minute)
	s.Line.Failure = &Failure{Reason: "refused", At: time.Unix(1, 0).UTC()}
	require.NoError(t, s.Write(dir))
	got, err := Read(dir)
	require.NoError(t, err)
	assert.Equal(t, s, got)
	assert.Equal(t, uint64(1), got.Line.Connect.Buckets[3])
	assert.Equal(t, uint64(2), got.Line.Connect.Count)
}

// The directory belongs to the broker, which the reader does not trust.
func TestForeignFiles(t *testing.T) {
	path := func(dir string) string { return filepath.Join(dir, file) }
	for name, plant := range map[string]func(dir string) error{
		"a link": func(dir string) error { return os.Symlink("/etc/passwd", path(dir)) },
		"a pipe": func(dir string) error { return unix.Mkfifo(path(dir), 0o600) },
		"no JSON": func(dir string) error {
			return os.WriteFile(path(dir), []byte("["), 0o600)
		},
		"control characters": func(dir string) error {
			return os.WriteFile(path(dir), []byte(`{"line":{"failure":{"reason":"\u001b[2J"}}}`), 0o600)
		},
		"too long": func(dir string) error {
			return os.WriteFile(path(dir), []byte(`{"endpoint":"`+strings.Repeat("x", longest)+`"}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, plant(dir))
			_, err := Read(dir)
			assert.Error(t, err)
		})
	}
}
