package snapshot

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/disk"
)

// tree makes a copy of directories inside each other, each with so many files of so many bytes.
func tree(t testing.TB, width, files, size int) Copy {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
	top, err := os.MkdirTemp("/var/tmp", "codex-snapshot-") // as /tmp may be in memory
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
	c := Copy{Snapshot: filepath.Join(top, "snapshot"), Target: filepath.Join(top, "target"), Owner: Owner{61234, 61235}}
	require.NoError(t, os.Mkdir(c.Target, 0o700))
	content := strings.Repeat("x", size)
	for i := range width {
		dir := filepath.Join(c.Snapshot, fmt.Sprint(i/100), fmt.Sprint(i/10), fmt.Sprint(i))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for n := range files {
			require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, n), []byte(content), 0o640))
		}
	}
	return c
}

// Whatever number of workers copies a tree, it has the same files, owners, modes and times.
func TestWorkers(t *testing.T) {
	c := tree(t, 210, 3, 5000)
	require.NoError(t, os.Symlink("../nowhere", c.Snapshot+"/0/link"))
	require.NoError(t, os.WriteFile(c.Snapshot+"/0/empty", nil, 0o400))
	require.NoError(t, os.Chmod(c.Snapshot+"/1", 0o555))
	old := time.Unix(1_700_000_000, 123)
	require.NoError(t, filepath.WalkDir(c.Snapshot, func(path string, d fs.DirEntry, err error) error {
		if d.Type() == fs.ModeSymlink {
			return err
		}
		return os.Chtimes(path, old, old)
	}))
	require.NoError(t, os.Chtimes(c.Snapshot, old, old))
	list := func(dir string) string {
		out, err := exec.Command("sh", "-c", "cd "+dir+`; find . -type l -printf '%P %l\n' -o -printf '%P %y %m %T@ %s\n' | sort
			find . -type f -exec cat {} + | sha256sum`).Output()
		require.NoError(t, err)
		return string(out)
	}
	want := list(c.Snapshot)
	for _, workers := range []int{1, 2, 7} {
		require.NoError(t, os.RemoveAll(c.Target))
		require.NoError(t, os.Mkdir(c.Target, 0o700))
		require.NoError(t, c.files(workers))
		assert.Equal(t, want, list(c.Target))
		foreign, err := exec.Command("find", c.Target, "!", "-uid", "61234", "-o", "!", "-gid", "61235").Output()
		require.NoError(t, err)
		assert.Empty(t, string(foreign))
	}
}

// Foreign code makes a snapshot, and root the copy: what takes nothing of the disk there takes nothing here.
func TestCopyTakesNoMore(t *testing.T) {
	c := tree(t, 30, 1, 10)
	const size = 64 << 20
	file, err := os.Create(c.Snapshot + "/0/sparse")
	require.NoError(t, err)
	require.NoError(t, file.Truncate(size))
	_, err = file.WriteAt([]byte("middle"), size/2)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.NoError(t, os.Truncate(c.Snapshot+"/0/0/0/0", size))
	require.NoError(t, os.WriteFile(c.Snapshot+"/0/1/linked", make([]byte, 1<<20), 0o644))
	for n := range 30 {
		require.NoError(t, os.Link(c.Snapshot+"/0/1/linked", fmt.Sprintf("%s/0/%d/%d/again", c.Snapshot, n/10, n)))
	}
	taken := func(dir string) int64 { return disk.Taken(t.Context(), []string{dir}, math.MaxInt64) }
	require.Less(t, taken(c.Snapshot), int64(3<<20))
	for _, workers := range []int{1, 3} {
		require.NoError(t, os.RemoveAll(c.Target))
		require.NoError(t, os.Mkdir(c.Target, 0o700))
		require.NoError(t, c.files(workers))
		assert.LessOrEqual(t, taken(c.Target), taken(c.Snapshot))
		same, err := exec.Command("diff", "-r", c.Snapshot, c.Target).CombinedOutput()
		require.NoError(t, err, "%s", same)
		foreign, err := exec.Command("find", c.Target, "!", "-uid", "61234").Output()
		require.NoError(t, err)
		assert.Empty(t, string(foreign))
	}
}

// One thing that cannot be copied ends the work, with its name.
func TestNoFile(t *testing.T) {
	c := tree(t, 30, 3, 10)
	require.NoError(t, syscall.Mkfifo(c.Snapshot+"/0/1/pipe", 0o600))
	for _, workers := range []int{1, 3} {
		require.NoError(t, os.RemoveAll(c.Target))
		require.NoError(t, os.Mkdir(c.Target, 0o700))
		err := c.files(workers)
		assert.EqualError(t, err, fmt.Sprintf("cannot copy %q: it is no file, directory or link", c.Snapshot+"/0/1/pipe"))
	}
}

// The bytes of a file get to another file system, too.
func TestStream(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	from, err := os.Open(program)
	require.NoError(t, err)
	defer from.Close()
	to, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	require.NoError(t, err)
	defer to.Close()
	info, err := from.Stat()
	require.NoError(t, err)
	require.NoError(t, stream(int(from.Fd()), int(to.Fd()), 0, info.Size()))
	require.NoError(t, exec.Command("cmp", program, to.Name()).Run())
}

// BenchmarkFiles copies 1 GB in 60 000 files, by one worker and by as many as there are processors.
func BenchmarkFiles(b *testing.B) {
	c := tree(b, 6000, 10, 17_000)
	for _, workers := range []int{1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, c.files(workers))
				b.StopTimer()
				require.NoError(b, os.RemoveAll(c.Target))
				require.NoError(b, os.Mkdir(c.Target, 0o700))
				syscall.Sync()
				b.StartTimer()
			}
		})
	}
}
