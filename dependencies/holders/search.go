package holders

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// file identifies a file on this machine, whatever its path is in a process's mount namespace.
type file struct{ device, inode uint64 }

// search is one look at all processes. Its maps are fixed before the look; mu guards the results.
type search struct {
	sockets map[uint64]string // inodes of listening sockets, with the name of the port
	data    map[file]string   // with the path
	lock    file              // a file that a process has locked; zero: none
	locked  string            // its path

	mu    sync.Mutex
	found map[int]*Holder
}

// search collects the identities of the claim's resources. It leaves out the unreadable ones, and reports them.
func (c Claim) search(ctx context.Context) (*search, error) {
	s := &search{found: map[int]*Holder{}}
	var portErr, lockErr, dataErr error
	s.sockets, portErr = listening("/proc/net", c.Ports)
	var lock file
	var taken bool
	if lock, taken, lockErr = lockOf(c.Root, c.Lock); taken {
		s.lock, s.locked = lock, c.Lock
	}
	s.data, dataErr = filesBelow(ctx, c.Root, c.Data)
	delete(s.data, lock)
	return s, errors.Join(portErr, lockErr, dataErr)
}

func (s *search) empty() bool { return len(s.sockets) == 0 && len(s.data) == 0 && s.locked == "" }

// add records that a process holds something.
func (s *search) add(pid int, what string, hold kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.found[pid]
	if h == nil {
		h = &Holder{PID: pid}
		s.found[pid] = h
	}
	h.add(what, hold)
}

// holders describes the processes that were found, and the resources without one. A process of the server's own
// unit counts for the lock only: the lock decides whether the server can start.
func (s *search) holders(unit string) []Holder {
	var list []Holder
	seen := map[string]bool{}
	for _, h := range s.found {
		h.describe("/proc")
		h.nameTop("/proc")
		for _, held := range h.held {
			seen[held.what] = true
		}
		if unit != "" && h.Unit == unit {
			h.held = slices.DeleteFunc(h.held, func(e entry) bool { return e.kind != aLock })
		}
		if len(h.held) > 0 {
			list = append(list, *h)
		}
	}
	slices.SortFunc(list, func(a, b Holder) int { return a.PID - b.PID })
	return append(onePerServer(list), s.unseen(seen)...)
}

// onePerServer leaves the first process of each service, and of each server outside of services, with the resources of
// the others: a server has many processes, and the end of the service, or of the server's top process, ends all of
// them.
func onePerServer(list []Holder) (kept []Holder) {
	for _, h := range list {
		i := slices.IndexFunc(kept, func(k Holder) bool {
			return k.PID == h.PID || k.Unit == h.Unit && isService(h.Unit)
		})
		if i < 0 {
			kept = append(kept, h)
			continue
		}
		if kept[i].isShim() {
			h, kept[i] = kept[i], h
		}
		for _, e := range h.held {
			kept[i].add(e.what, e.kind)
		}
	}
	return kept
}

// isShim recognises notify-exec, which holds the lock together with the server that it has started.
func (h Holder) isShim() bool { return strings.Contains(h.Command, "codex-proxy notify-exec ") }

// unseen are the sockets and the lock that no visible process holds.
func (s *search) unseen(seen map[string]bool) (list []Holder) {
	var h Holder
	for _, port := range s.sockets {
		if !seen[port] {
			h.add(port, aPort)
		}
	}
	if s.locked != "" && !seen[lockName(s.locked)] {
		h.add(lockName(s.locked), aLock)
	}
	if len(h.held) > 0 {
		list = append(list, h)
	}
	return list
}
