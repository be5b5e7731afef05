package notify

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Reloading reports the begin of a reload; Ready ends it. After Stopping it does nothing.
// Type=notify-reload requires the time (systemd.service(5)).
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

// HandOff makes pid the unit's main process. The service manager then accepts messages of that process alone
// (NotifyAccess=main), so this Notifier falls silent. It reads the messages of all processes in the order in which they
// were sent: it accepts messages of pid after HandOff has returned. After an error nothing has changed.
func (n *Notifier) HandOff(pid int) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.deliver("MAINPID=" + strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("cannot announce the new process to the service manager: %w", err)
	}
	n.silent = true
	return nil
}

// Silence sets whether messages are dropped, for a process that is not the unit's main
// one yet.
func (n *Notifier) Silence(silent bool) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
}

// Environment returns the variables that FromEnv removed, for a successor.
func (n *Notifier) Environment() []string {
	if n == nil {
		return nil
	}
	env := []string{"NOTIFY_SOCKET=" + n.socket.Name}
	if n.watchdog > 0 {
		env = append(env, fmt.Sprintf("WATCHDOG_USEC=%d", n.watchdog.Microseconds()))
	}
	return env
}
