package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// What a turn of codex may write, and what may stay of it: 5 MB of 20 000 turns.
const (
	mostWritten = 2000 // bytes
	mostKept    = 250
)

// release is a codex that is measured.
type release struct{ name, path string }

func (b *bench) codexes() []release {
	return []release{{"pinned codex", b.codex}, {"oldest codex", b.oldest}}
}

// codexDisk measures what turns of a worker's codex write, and what stays of them in its home.
func (b *bench) codexDisk(ctx context.Context) error {
	for _, p := range b.codexes() {
		if p.path == "" {
			return errors.New("want -codex FILE and -oldest FILE, as `make bench` gives")
		}
		if err := b.withCodex(ctx, p.path, manyPlaces, []string{"text It is a fine day."}, func(codex *process, d *daemon) error {
			return b.diskOf(ctx, p.name, codex, turns{daemon: d})
		}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) diskOf(ctx context.Context, name string, codex *process, r turns) error {
	if err := r.crowd(ctx, 200); err != nil { // the databases get their first pages
		return err
	}
	before, err := codex.disk()
	if err != nil {
		return err
	}
	count := 200 * b.rounds
	if err := r.crowd(ctx, count); err != nil {
		return err
	}
	after, err := codex.disk()
	if err != nil {
		return err
	}
	a := after.since(before, count)
	b.result.One(name+": written to the disk in a turn", "bytes", mostWritten, a.written)
	b.result.One(name+": kept on the disk of a turn", "bytes", mostKept, a.kept)
	return nil
}

// crowd makes so many turns, or up to three more, 16 at a time: half of them have a conversation of their own, and half are of conversations
// of four.
func (r turns) crowd(ctx context.Context, count int) error {
	const clients, each = 16, 4
	var begun atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range clients {
		g.Go(func() error {
			for {
				n := int(begun.Add(each)) - each
				if n >= count {
					return nil
				}
				if err := r.throughProxy(ctx, each, n/each%2 == 0); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// disk is what a process has written to file systems, and what its home has, in bytes.
type disk struct{ written, kept float64 }

// since is the growth for each of so many turns.
func (d disk) since(before disk, turns int) disk {
	n := float64(turns)
	return disk{(d.written - before.written) / n, (d.kept - before.kept) / n}
}

// disk reads it of a codex, with the children that have ended. What was written and removed before the kernel stored it
// does not count (proc_pid_io(5)).
func (p *process) disk() (d disk, err error) {
	if d.kept, err = occupied(filepath.Dir(p.Path)); err != nil {
		return d, err
	}
	text, err := os.ReadFile(p.file("io"))
	if err != nil {
		return d, err
	}
	_, rest, _ := strings.Cut(string(text), "\nwrite_bytes:")
	var written, cancelled float64
	if _, err := fmt.Sscanf(rest, "%g\ncancelled_write_bytes: %g", &written, &cancelled); err != nil {
		return d, fmt.Errorf("cannot read what %s has written: %w: %s", p.Path, err, text)
	}
	d.written = written - cancelled
	return d, nil
}

// occupied is the space that the files below a directory take.
func occupied(dir string) (bytes float64, err error) {
	var system unix.Statfs_t
	if err := unix.Statfs(dir, &system); err != nil {
		return 0, err
	}
	if system.Type == unix.TMPFS_MAGIC {
		return 0, fmt.Errorf("%s is in memory, where the kernel does not count what is written (hint: TMPDIR=DIR)", dir)
	}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil { // an error: it has gone
			bytes += float64(info.Sys().(*syscall.Stat_t).Blocks) * 512
		}
		return nil
	})
	return bytes, err
}
