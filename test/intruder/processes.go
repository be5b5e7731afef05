package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func pointer(p *byte) unsafe.Pointer { return unsafe.Pointer(p) }

// call makes a system call.
func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// processes are the processes of others, and of this session its main process.
func processes(v victim) []attempt {
	var all []attempt
	for _, pid := range []int{v.PID, v.Main, 1} {
		all = append(all,
			attempt{fmt.Sprint("signal ", pid), func() error { return unix.Kill(pid, 0) }},
			attempt{fmt.Sprint("signal the group ", pid), func() error {
				if pid == 1 { // that would be all processes
					return unix.EPERM
				}
				return unix.Kill(-pid, 0)
			}},
			attempt{fmt.Sprint("queue a signal ", pid), func() error { return unix.Tgkill(pid, pid, 0) }},
			attempt{fmt.Sprint("limits of ", pid), func() error {
				var limit unix.Rlimit
				return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit)
			}},
			attempt{fmt.Sprint("priority of ", pid), func() error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) }},
			attempt{fmt.Sprint("affinity of ", pid), func() error {
				var set unix.CPUSet
				set.Set(0)
				return unix.SchedSetaffinity(pid, &set)
			}},
		)
	}
	for _, pid := range []int{v.PID, v.Main, 1, os.Getppid()} {
		all = append(all,
			attempt{fmt.Sprint("trace ", pid), func() error {
				runtime.LockOSThread() // a tracer is a thread
				defer runtime.UnlockOSThread()
				err := unix.PtraceSeize(pid)
				if err == nil {
					_ = unix.PtraceDetach(pid)
				}
				return err
			}},
			attempt{fmt.Sprint("memory of ", pid), func() error {
				local := make([]byte, 1)
				_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &local[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
				return err
			}},
			attempt{fmt.Sprint("files of ", pid), func() error {
				fd, err := unix.PidfdOpen(pid, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				stolen, err := unix.PidfdGetfd(fd, 3, 0)
				if err == nil {
					_ = unix.Close(stolen)
				}
				return err
			}},
			attempt{fmt.Sprint("namespaces of ", pid), func() error {
				for _, name := range []string{"mnt", "net", "ipc", "user", "pid"} {
					file, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
					if err != nil {
						continue
					}
					err = unix.Setns(int(file.Fd()), 0)
					_ = file.Close()
					if err == nil {
						return nil
					}
				}
				return unix.EPERM
			}},
		)
	}
	return append(all,
		attempt{"priority of the victim's user", func() error { return unix.Setpriority(unix.PRIO_USER, v.UID, 19) }},
		attempt{"a program with the set-user-ID bit", func() error {
			out, err := exec.Command("/usr/bin/intruder-root", "euid").Output()
			if err == nil && string(out) != "0" {
				err = unix.EPERM
			}
			return err
		}},
	)
}
