//go:build faultinject

package fault

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// armed receives the signal for the loop that CODEX_PROXY_FAULT names.
var armed = sync.OnceValue(func() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1, syscall.SIGUSR2)
	return c
})

func init() { armed() }

// Point stops the calling goroutine for good after SIGUSR1, if CODEX_PROXY_FAULT is
// name. After SIGUSR2 it panics.
func Point(name string) {
	if name != os.Getenv("CODEX_PROXY_FAULT") {
		return
	}
	select {
	case s := <-armed():
		if s == syscall.SIGUSR2 {
			panic("fault injected into " + name)
		}
		select {}
	default:
	}
}
