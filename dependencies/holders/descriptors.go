package holders

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// readers bounds the goroutines that read /proc.
const readers = 4

// descriptors looks at the open descriptors of every process but this one, until ctx ends.
func (s *search) descriptors(ctx context.Context) {
	pids := make(chan int, 64)
	var tasks sync.WaitGroup
	for range min(readers, runtime.GOMAXPROCS(0)) {
		tasks.Go(func() {
			buffer := make([]byte, 8<<10)
			for pid := range pids {
				s.process(ctx, pid, buffer)
			}
		})
	}
	for _, pid := range processes() {
		if pid != os.Getpid() && ctx.Err() == nil {
			pids <- pid
		}
	}
	close(pids)
	tasks.Wait()
}

// processes returns the numbers of all processes that can be seen, also of those in other PID namespaces below this
// one.
func processes() (pids []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1) // the end of a process in between is no error
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// process looks at one process, which may end meanwhile. It calls the kernel directly: os.File would double the number
// of calls, of which a look at a thousand processes has ten thousand.
func (s *search) process(ctx context.Context, pid int, buffer []byte) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	dir, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/fd", flags, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(dir) }()
	names := make([]string, 0, 64)
	for ctx.Err() == nil {
		n, err := unix.ReadDirent(dir, buffer)
		if n <= 0 || err != nil {
			return
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names[:0])
		for _, fd := range names {
			s.descriptor(dir, pid, fd)
		}
	}
}

// descriptor compares the file behind a descriptor with the wanted files. The link in /proc leads to the open file
// itself, not to its path.
func (s *search) descriptor(dir, pid int, fd string) {
	id, mode, err := identify(dir, fd, 0)
	if err != nil {
		return
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		if port, found := s.sockets[id.inode]; found {
			s.add(pid, port, aPort)
		}
	case unix.S_IFREG:
		s.regular(pid, fd, id)
	}
}

func (s *search) regular(pid int, fd string, id file) {
	path, found := s.data[id]
	isLock := s.locked != "" && id == s.lock
	if !found && !isLock {
		return
	}
	info, _ := readStart(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd)) // an error: the descriptor is closed
	if isLock && locksFile(info) {
		s.add(pid, lockName(s.locked), aLock)
	}
	if found && writes(info) {
		s.add(pid, path, aFile)
	}
}
