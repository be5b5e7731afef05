package exec

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startApart starts a process of the session on a thread of its own, which ends with it. The process and its children
// inherit the settings of the thread; this program does not: they can receive StopSignal, and cannot set limits of
// other processes, such as this one, which has the same user (prlimit(2)).
func startApart(name string, args []string, attr *os.ProcAttr) (process *os.Process, err error) {
	spareThreads()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err = keepLimits(); err != nil {
			return
		}
		if err = unix.PthreadSigmask(unix.SIG_UNBLOCK, stopSet(), nil); err != nil {
			return
		}
		process, err = os.StartProcess(name, args, attr)
	}()
	<-done
	return process, err
}

// Offsets in struct seccomp_data of seccomp(2), on a little-endian machine.
const (
	callNumber = 0
	firstLow   = 16
	thirdLow   = 32
	thirdHigh  = 36
)

// keepLimits has prlimit64 fail with EPERM if it sets the limits of a process by its ID; 0 is the caller. systemd
// allows the calls of one architecture alone (SystemCallArchitectures=).
func keepLimits() error {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: yes, Jf: no}
	}
	answer := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	filter := []unix.SockFilter{
		load(callNumber), equal(unix.SYS_PRLIMIT64, 0, 6),
		load(firstLow), equal(0, 4, 0),
		load(thirdLow), equal(0, 0, 3),
		load(thirdHigh), equal(0, 0, 1),
		answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	at := uintptr(unsafe.Pointer(program)) //nolint:gosec // prctl(2) takes it as a number
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, at, 0, 0); err != nil {
		return fmt.Errorf("cannot keep the limits of this process: %w", err)
	}
	runtime.KeepAlive(program)
	return nil
}
