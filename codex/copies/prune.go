package copies

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// starting is how long a copy stays for the start that has chosen it, before its process runs.
const starting = 10 * time.Minute

// CanaryUnit is the unit that tries the copy called name.
func CanaryUnit(name string) string { return "codex-canary@" + name + ".service" }

// Prune removes the copies that no process runs, and that are neither in use nor were so before. A copy stays for a
// start or a trial that has just chosen it, too. A confined store removes those alone that are held and that no unit
// has. It returns the names of those that it has removed.
func (s *Store) Prune(ctx context.Context) ([]string, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return prune(s)
}

// prune is Prune; its caller has the lock.
func prune(s *Store) (gone []string, err error) {
	state, err := s.State()
	if err != nil {
		return nil, err // which ones may go is unknown
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	running, err := processes()
	if err != nil {
		return nil, err
	}
	fresh, all := chosen(s.Runs)
	kept := append(fresh, state.InUse, state.Before, state.Pinned)
	for _, c := range list {
		_, held := state.HeldBack(c.Name)
		if slices.Contains(kept, c.Name) || runs(running, c.Program) ||
			s.Confined && (!held || slices.Contains(all, c.Name)) {
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, c.Name)))
		gone = append(gone, c.Name)
	}
	return gone, err
}

// chosen are the names of the copies that units have, and those that they have chosen just now.
func chosen(runs string) (fresh, all []string) {
	links, _ := filepath.Glob(filepath.Join(runs, "*"))
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		all = append(all, filepath.Base(target))
		if info, err := os.Lstat(link); err == nil && time.Since(info.ModTime()) < starting {
			fresh = append(fresh, filepath.Base(target))
		}
	}
	return fresh, all
}

// processes are the programs of all processes.
func processes() ([]os.FileInfo, error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	var list []os.FileInfo
	for _, link := range links {
		if info, err := os.Stat(link); err == nil {
			list = append(list, info)
		}
	}
	return list, err
}

func runs(running []os.FileInfo, program string) bool {
	info, err := os.Stat(program)
	return err == nil && slices.ContainsFunc(running, func(p os.FileInfo) bool { return os.SameFile(p, info) })
}
