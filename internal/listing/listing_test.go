package listing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimeLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Minute: "0m", 59 * time.Second: "0m", 59*time.Minute + 59*time.Second: "59m",
		47*time.Hour + 59*time.Minute: "47h59m", 48 * time.Hour: "2 days",
	} {
		assert.Equal(t, want, Left(d), d)
	}
}

func TestPaper(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	assert.Equal(t, Paper{Width: PlainWidth}, PaperOf(file), "a file is no terminal")
	assert.Equal(t, Paper{Width: PlainWidth}, PaperOf(&bytes.Buffer{}))
	assert.Equal(t, "x", Paper{}.In(Red, "x"))
	assert.Equal(t, "\x1b[31mx\x1b[0m", Paper{Colour: true}.In(Red, "x"))
}

// things is a list for the tests.
type things struct {
	Name string `json:"name"`
}

func writeThings(_ Paper, w io.Writer, list things, _ time.Time) error {
	_, err := fmt.Fprintf(w, "thing: %s\n", list.Name)
	return err
}

func TestListOnce(t *testing.T) {
	collect := func(context.Context) (things, error) { return things{"a"}, nil }
	for want, asJSON := range map[string]bool{"thing: a\n": false, "{\"name\":\"a\"}\n": true} {
		var out bytes.Buffer
		l := Listing[things]{Stdout: &out, JSON: asJSON, Collect: collect, Write: writeThings}
		require.NoError(t, l.Run(t.Context()))
		assert.Equal(t, want, out.String())
	}
	l := Listing[things]{Collect: func(context.Context) (things, error) { return things{}, io.ErrUnexpectedEOF }}
	assert.ErrorIs(t, l.Run(t.Context()), io.ErrUnexpectedEOF)
}

// A watch that is no terminal shows each change once, and a terminal the present page.
func TestShow(t *testing.T) {
	var out bytes.Buffer
	l := Listing[things]{Stdout: &out, Write: writeThings}
	shown, err := l.show(things{"a"}, nil, false)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(out.String(), "thing:"))
	again, err := l.show(things{"a"}, shown, false)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(out.String(), "thing:"), "nothing has changed")
	_, err = l.show(things{"b"}, again, false)
	require.NoError(t, err)
	assert.Equal(t, "thing: a\n\nthing: b\n", out.String())
	out.Reset()
	for range 2 {
		_, err = l.show(things{"b"}, again, true)
		require.NoError(t, err)
	}
	assert.Equal(t, 2, strings.Count(out.String(), clearScreen))
}

// A watch ends with its context, and that is no error.
func TestWatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	var out bytes.Buffer
	l := Listing[things]{Stdout: &out, Watch: true, Write: writeThings,
		Collect: func(context.Context) (things, error) {
			looks++
			if looks == 2 {
				cancel()
			}
			return things{fmt.Sprint(looks)}, nil
		}}
	require.NoError(t, l.Run(ctx))
	assert.Equal(t, "thing: 1\n", out.String())
}

// A watch with a source of changes looks when something has changed, and not each second.
func TestWatchFollowsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var looks atomic.Int32
		changes := make(chan func(), 1)
		var out bytes.Buffer
		l := Listing[things]{Stdout: &out, Watch: true, Write: writeThings,
			Collect: func(context.Context) (things, error) {
				return things{fmt.Sprint(looks.Add(1))}, nil
			},
			Changes: func(ctx context.Context, changed func()) error {
				changes <- changed
				<-ctx.Done()
				return nil
			}}
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		changed := <-changes
		changed()
		synctest.Wait()
		assert.EqualValues(t, 2, looks.Load(), "at the beginning and after the change")
		changed()
		synctest.Wait()
		assert.EqualValues(t, 3, looks.Load())
		<-time.After(slowPause + pause + time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 4, looks.Load(), "settings change without an event")
		cancel()
		require.NoError(t, <-ended)
	})
}

// Without the source of changes a watch looks each second.
func TestWatchWithoutItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var looks atomic.Int32
		l := Listing[things]{Stdout: io.Discard, Watch: true, Write: writeThings,
			Collect: func(context.Context) (things, error) { looks.Add(1); return things{}, nil },
			Changes: func(context.Context, func()) error { return io.EOF }}
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		<-time.After(3*pause + time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 4, looks.Load())
		cancel()
		require.NoError(t, <-ended)
	})
}

// A person approves what is shown: no sign is left out, and none looks like nothing.
func TestVisible(t *testing.T) {
	assert.Equal(t, "rm\t-rf\\u{d}/é \\u{200b}\\u{a0}\\u{3164}x", Visible("rm\t-rf\r/é \u200b\u00a0\u3164x"))
	assert.Equal(t, "rm-rf", Printable("rm\t-rf"))
}
