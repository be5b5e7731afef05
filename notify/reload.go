package notify

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Reloading says that a reload has begun; Ready ends it. After Stopping it does
// nothing. The time is what the Type=notify-reload protocol asks for.
func (n *Notifier) Reloading(status string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var now unix.Timespec
	if n.stopping || unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return
	}
	n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000), statusLine(status))
}

// handOver makes pid the unit's main process. From here on the service manager
// listens to that one alone (NotifyAccess=main), so this Notifier falls silent.
// Messages are read in the order in which they were sent, whoever sent them:
// what pid says after this has returned is heard. After an error nothing has changed.
func (n *Notifier) handOver(pid int) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.deliver("MAINPID=" + strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("cannot tell the service manager of the new process: %w", err)
	}
	n.silent = true
	return nil
}

// hush sets whether messages are dropped. It is for a process that is not the
// unit's main one yet.
func (n *Notifier) hush(silent bool) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
}

// environment is what FromEnv took away, for a successor.
func (n *Notifier) environment() []string {
	if n == nil {
		return nil
	}
	env := []string{"NOTIFY_SOCKET=" + n.socket.Name}
	if n.watchdog > 0 {
		env = append(env, fmt.Sprintf("WATCHDOG_USEC=%d", n.watchdog.Microseconds()))
	}
	return env
}
