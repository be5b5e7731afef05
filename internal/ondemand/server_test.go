package ondemand

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Time counts from the end of the last connection.
func TestIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(http.NotFoundHandler(), time.Second, time.Minute, slog.New(slog.DiscardHandler))
		began := time.Now()
		time.AfterFunc(50*time.Second, func() { s.idle.ConnState(nil, http.StateNew) })
		time.AfterFunc(55*time.Second, func() { s.idle.ConnState(nil, http.StateNew) })
		time.AfterFunc(70*time.Second, func() { s.idle.ConnState(nil, http.StateClosed) })
		time.AfterFunc(80*time.Second, func() { s.idle.ConnState(nil, http.StateClosed) })
		<-s.idle.Over()
		assert.Equal(t, 140*time.Second, time.Since(began))
	})
}
