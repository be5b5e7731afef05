package disk

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// unnamed counts the files without a name that processes have open on the file systems of the tops: removed ones, and
// files made with O_TMPFILE (open(2)). proc is /proc, which shows the open files of this user's processes.
func (w *walk) unnamed(proc string) {
	processes, _ := os.Open(proc)
	defer processes.Close() // nil is harmless
	for !w.over() {
		names, err := processes.Readdirnames(batch)
		for _, name := range names {
			if _, err := strconv.Atoi(name); err == nil {
				w.openOf(filepath.Join(proc, name, "fd"))
			}
		}
		if err != nil {
			return
		}
	}
}

// openOf counts the unnamed files of one process.
func (w *walk) openOf(dir string) {
	files, err := os.Open(dir)
	if err != nil {
		return // the process has ended, or is another user's
	}
	defer files.Close()
	for !w.over() {
		names, err := files.Readdirnames(batch)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(int(files.Fd()), name, &st, 0) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
				st.Nlink == 0 && w.devices[st.Dev] && w.first(&st) {
				w.add(&st)
			}
		}
		if err != nil {
			return
		}
	}
}
