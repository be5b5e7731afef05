package prepare

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnHost runs f among the mounts of the host, in one thread. A process of a unit with a dynamic user, also one of root,
// has the state of that unit on a mount of its own (StateDirectory= in systemd.exec(5)), from which nothing can be
// moved away (rename(2)).
func OnHost(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := enterHost()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func enterHost() error {
	host, err := os.Open("/proc/1/ns/mnt")
	if err != nil {
		return err
	}
	// setns(2): a thread that shares its root and working directory with others cannot change its mounts.
	err = unix.Unshare(unix.CLONE_FS)
	if err == nil {
		err = unix.Setns(int(host.Fd()), unix.CLONE_NEWNS)
	}
	if err != nil {
		err = fmt.Errorf("cannot see the mounts of the host: %w", err)
	}
	return errors.Join(err, host.Close())
}
