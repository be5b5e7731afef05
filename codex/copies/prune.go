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

// Prune removes the copies that no process runs, and that are neither in use nor were so before. A copy that is not
// held stays for a start that has just chosen it, too. It returns the names of those that it has removed.
func (s *Store) Prune(ctx context.Context) ([]string, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
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
	chosen := justChosen(s.Runs)
	var gone []string
	for _, c := range list {
		_, held := state.HeldBack(c.Name)
		kept := []string{state.InUse, state.Before, state.Pinned}
		if slices.Contains(kept, c.Name) || !held && slices.Contains(chosen, c.Name) || runs(running, c.Program) {
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, c.Name)))
		gone = append(gone, c.Name)
	}
	return gone, err
}

// justChosen are the names of the copies that starts have chosen just now.
func justChosen(runs string) (names []string) {
	links, _ := filepath.Glob(filepath.Join(runs, "*"))
	for _, link := range links {
		target, err := os.Readlink(link)
		if info, err2 := os.Lstat(link); err == nil && err2 == nil && time.Since(info.ModTime()) < starting {
			names = append(names, filepath.Base(target))
		}
	}
	return names
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
