package pulse

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// silent never answers, and does something when it is pinged.
type silent func()

func (s silent) Ping(ctx context.Context) error {
	s()
	<-ctx.Done()
	return ctx.Err()
}

func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pulse
		alive := func(during func()) bool { return p.Alive(t.Context(), silent(during), time.Second) }
		assert.False(t, alive(func() {}), "nothing moves")
		free := p.Hold()
		assert.True(t, alive(func() { t.Error("it is pinged") }), "busy")
		free()
		assert.False(t, alive(func() {}), "busy no more")
		assert.True(t, alive(func() { free = p.Hold() }), "busy since")
		free()
		assert.True(t, alive(func() { p.Hold()() }), "it was busy")
		assert.True(t, alive(func() { _, _ = io.ReadAll(p.Reader(strings.NewReader("x"))) }), "a piece came")
		ctx, cancel := context.WithCancel(t.Context())
		assert.True(t, p.Alive(ctx, silent(cancel), time.Second), "the end of the connection is no silence")
	})
}
