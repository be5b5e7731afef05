package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// The names of what a victim has in its memories.
const (
	ipcKey = 4321
	port   = "4321"
)

// hold puts the mark everywhere, and reports every connection until SIGTERM.
func hold(mark string) error {
	for _, dir := range []string{os.Getenv("HOME"), "/workspace", "/tmp", "/var/tmp", "/dev/shm"} {
		if err := os.WriteFile(dir+"/mark", []byte(mark), 0o666); err != nil {
			return err
		}
		if err := os.Chmod(dir+"/mark", 0o666); err != nil { // the umask
			return err
		}
	}
	if err := remember(mark); err != nil {
		return err
	}
	reached := make(chan string)
	for _, address := range [][2]string{
		{"unix", "@mark"}, {"unix", "/tmp/mark.sock"}, {"unix", "/workspace/mark.sock"},
		{"tcp", "127.0.0.1:" + port}, {"tcp", "[::1]:" + port},
	} {
		listener, err := net.Listen(address[0], address[1])
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			continue // a machine without IPv6
		}
		if err != nil {
			return err
		}
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_ = conn.Close()
				reached <- listener.Addr().String()
			}
		}()
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	fmt.Fprintln(os.Stdout, mark, "is ready")
	select {
	case <-ended:
		fmt.Fprintln(os.Stdout, "ended")
		return nil
	case address := <-reached:
		return fmt.Errorf("a connection to %s", address)
	}
}

// remember puts the mark into memory that has a name.
func remember(mark string) error {
	id, err := unix.SysvShmGet(ipcKey, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		return fmt.Errorf("cannot make shared memory: %w", err)
	}
	memory, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return fmt.Errorf("cannot attach shared memory: %w", err)
	}
	copy(memory, mark)
	if _, _, errno := unix.Syscall(unix.SYS_MSGGET, ipcKey, unix.IPC_CREAT|0o666, 0); errno != 0 {
		return fmt.Errorf("cannot make a message queue: %w", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SEMGET, ipcKey, 1, unix.IPC_CREAT|0o666); errno != 0 {
		return fmt.Errorf("cannot make a semaphore: %w", errno)
	}
	if err := openQueue(unix.O_CREAT | unix.O_RDWR); err != nil {
		return fmt.Errorf("cannot make a POSIX message queue: %w", err)
	}
	if _, err := unix.AddKey("user", "mark", []byte(mark), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		return fmt.Errorf("cannot add a key: %w", err)
	}
	return nil
}

// openQueue opens the message queue "mark" (mq_open(3)).
func openQueue(flags int) error {
	name, err := unix.BytePtrFromString("mark")
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(pointer(name)), uintptr(flags), 0o666, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}
