package authz

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An answer waits for the end of a message of codex, and none is lost for one that could not be sent.
func TestAsideWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn bytes.Buffer
		to := &clientWriter{conn: &conn}
		ctx, cancel := context.WithCancelCause(t.Context())
		a := &aside{answers: to, ctx: ctx}
		require.NoError(t, to.pass([]byte("codex begins"), -1, true))
		large := strings.Repeat("<", MostAnswer-100)
		require.NoError(t, (&Aside{id: []byte("1"), of: a}).Notify("first", large))
		require.ErrorIs(t, to.put(make([]byte, queueLimit)), errFlood)
		sent := make(chan error)
		second := &Aside{id: []byte("2"), of: a}
		go func() { sent <- second.Answer(large) }()
		synctest.Wait()
		assert.NotContains(t, conn.String(), `"id":2`)
		require.NoError(t, to.pass([]byte(" and ends"), 9, false))
		require.NoError(t, <-sent)
		assert.Equal(t, 2, strings.Count(conn.String(), large), "without escapes of HTML")
		assert.Equal(t, 1, strings.Count(conn.String(), `"id":2`))

		require.NoError(t, to.pass([]byte("codex begins"), -1, true))
		require.NoError(t, (&Aside{id: []byte("1"), of: a}).Notify("first", large))
		gone := errors.New("the client has gone")
		go func() {
			synctest.Wait()
			cancel(gone)
		}()
		third := &Aside{id: []byte("3"), of: a}
		require.ErrorIs(t, third.Answer(large), gone)
		assert.False(t, third.answered)
	})
}

// An answer that is too large is refused, and the refusal is sent.
func TestAsideTooLarge(t *testing.T) {
	var conn bytes.Buffer
	a := &aside{answers: &clientWriter{conn: &conn}, ctx: t.Context()}
	one := &Aside{id: []byte("1"), of: a}
	err := one.Answer(strings.Repeat("x", MostAnswer))
	require.ErrorContains(t, err, "more than 900 KiB")
	one.refuse("fs/readFile", err)
	assert.Contains(t, conn.String(), "fs/readFile: the answer has more than 900 KiB")
	require.NoError(t, one.Answer("late"))
	assert.NotContains(t, conn.String(), "late")
}
