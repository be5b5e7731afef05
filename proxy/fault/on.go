//go:build faultinject

package fault

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// armed is closed by SIGUSR1; the loop to stop is named by CODEX_PROXY_FAULT.
var armed = sync.OnceValue(func() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	return c
})

func init() { armed() }

// Point stops the calling goroutine for good, once SIGUSR1 has come, if name is
// the loop that CODEX_PROXY_FAULT names.
func Point(name string) {
	if name != os.Getenv("CODEX_PROXY_FAULT") {
		return
	}
	select {
	case <-armed():
		select {}
	default:
	}
}
