package control

import (
	"bufio"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/exec"
)

// A client of a port waits for a session that starts slowly, and not for ever.
func TestStreamOfASlowStart(t *testing.T) {
	ask := func(after time.Duration) (err error) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = bufio.NewReader(theirs).ReadBytes('\n')
				<-time.After(after)
				_, _ = theirs.Write([]byte("{}\n"))
			}()
			_, err = begin(ours, bufio.NewReader(ours), exec.Request{Do: exec.Port, Port: 80})
			require.NoError(t, ours.Close())
			<-done
			require.NoError(t, theirs.Close()) // not before: a pipe whose other end is closed takes no deadline
		})
		return err
	}
	require.NoError(t, ask(20*time.Second))
	assert.ErrorContains(t, ask(40*time.Second), "timeout")
}
