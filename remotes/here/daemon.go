package here

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Daemon is a process of codex's own daemon, which codex starts without systemd.
type Daemon struct {
	PID     int
	Updater bool // it would start the daemon again
}

// Daemons returns the processes of codex's own daemon of a user, the updater first.
func Daemons(proc string, uid int) (list []Daemon) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if is, updater := isDaemon(proc, pid, uid); is {
			list = append(list, Daemon{PID: pid, Updater: updater})
		}
	}
	slices.SortStableFunc(list, func(a, b Daemon) int {
		if a.Updater == b.Updater {
			return 0
		}
		if a.Updater {
			return -1
		}
		return 1
	})
	return list
}

// isDaemon reads the command line: codex app-server … --managed-daemon, or codex app-server daemon pid-update-loop.
func isDaemon(proc string, pid, uid int) (is, updater bool) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	info, err := os.Stat(dir)
	if err != nil {
		return false, false
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid {
		return false, false
	}
	text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return false, false
	}
	args := bytes.Split(bytes.TrimSuffix(text, []byte{0}), []byte{0})
	has := func(arg string) bool {
		return slices.ContainsFunc(args, func(a []byte) bool { return string(a) == arg })
	}
	if filepath.Base(string(args[0])) != "codex" || len(args) < 2 || string(args[1]) != "app-server" {
		return false, false
	}
	updater = has("daemon") && has("pid-update-loop")
	return updater || has("--managed-daemon"), updater
}

// endBound bounds the end of a process of the daemon after each signal.
const endBound = 5 * time.Second

// EndDaemons ends codex's own daemon of a user and its updater, and returns how many processes have ended. The daemon
// waits for its turns without a bound; the second signal ends it at once.
func EndDaemons(ctx context.Context, proc string, uid int) (ended int, err error) {
	for _, d := range Daemons(proc, uid) {
		if err := endDaemon(ctx, proc, d.PID, uid); err != nil {
			return ended, fmt.Errorf("cannot end codex's own daemon (process %d): %w", d.PID, err)
		}
		ended++
	}
	return ended, nil
}

func endDaemon(ctx context.Context, proc string, pid, uid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if is, _ := isDaemon(proc, pid, uid); !is { // the number is another process's by now
		return nil
	}
	for range 2 {
		if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil {
			if errors.Is(err, unix.ESRCH) {
				return nil
			}
			return err
		}
		if ended(ctx, fd, endBound) {
			return nil
		}
	}
	return errors.New("it does not end: end it by hand, then enable again")
}

// ended waits for the end of a process.
func ended(ctx context.Context, pidfd int, bound time.Duration) bool {
	const step = 50
	for deadline := time.Now().Add(bound); time.Now().Before(deadline) && ctx.Err() == nil; {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, step); err == nil && n > 0 {
			return true
		}
	}
	return false
}
