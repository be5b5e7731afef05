package logs

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A written log: a Writer, and the files for readers.
type written struct {
	*Writer
	output, index string
}

func newLog(t testing.TB, limit int64, secrets *Secrets) written {
	t.Helper()
	dir := t.TempDir()
	l := written{output: filepath.Join(dir, "output"), index: filepath.Join(dir, "index")}
	var err error
	l.Writer, err = NewWriter(create(t, l.output, 0), create(t, l.index, 0), limit, secrets)
	require.NoError(t, err)
	return l
}

func create(t testing.TB, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// content is the output so far.
func (l written) content(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(l.output)
	require.NoError(t, err)
	return data
}

// records are the records of the index.
func (l written) records(t testing.TB) []record {
	t.Helper()
	data, err := os.ReadFile(l.index)
	require.NoError(t, err)
	require.Zero(t, len(data)%recordSize)
	var records []record
	for ; len(data) > 0; data = data[recordSize:] {
		r, err := decode(data)
		require.NoError(t, err)
		records = append(records, r)
	}
	return records
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

// copied copies data through a pipe into the log.
func (l written) copied(t testing.TB, stream Stream, data []byte) error {
	t.Helper()
	r, w := pipe(t)
	go func() {
		_, _ = w.Write(data)
		_ = w.Close()
	}()
	err := l.Copy(stream, r)
	_ = r.Close() // frees the writer after an error
	return err
}

func TestCopyKeepsEveryByte(t *testing.T) {
	for name, secrets := range map[string]*Secrets{"splice": nil, "with secrets": secretsOf(t, "not in here at all")} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, 1<<30, secrets)
			out, err := make([]byte, 5<<20), make([]byte, 3<<20)
			_, _ = rand.Read(out)
			_, _ = rand.Read(err)
			before := time.Now()
			var both sync.WaitGroup
			both.Go(func() { assert.NoError(t, l.copied(t, Stdout, out)) })
			both.Go(func() { assert.NoError(t, l.copied(t, Stderr, err)) })
			both.Wait()
			assert.EqualValues(t, len(out)+len(err), l.Bytes())

			data, streams, last := l.content(t), map[Stream][]byte{}, record{time: before.UnixNano()}
			for _, r := range l.records(t) {
				begin := last.end
				streams[r.stream] = append(streams[r.stream], data[begin:r.end]...)
				assert.GreaterOrEqual(t, r.time, last.time)
				last = r
			}
			assert.EqualValues(t, len(data), last.end)
			assert.True(t, bytes.Equal(out, streams[Stdout]))
			assert.True(t, bytes.Equal(err, streams[Stderr]))
		})
	}
}

// Each record costs the writer and all followers a wake-up.
func TestAFastStreamHasFewRecords(t *testing.T) {
	const size = 1 << 20 // what a pipe may have without a privilege
	l := newLog(t, 1<<30, nil)
	r, w := pipe(t)
	_, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, size)
	require.NoError(t, err)
	_, err = w.Write(make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, l.Copy(Stdout, r))
	assert.Len(t, l.records(t), 1)
	reader := l.open(t, 0)
	for at := int64(0); at < size; at += spanSize {
		span, err := reader.NextSpan()
		require.NoError(t, err)
		assert.Equal(t, []int64{at, spanSize}, []int64{span.Offset, span.Size})
	}
	_, err = reader.NextSpan()
	assert.Equal(t, io.EOF, err)
}

func TestOutputEndsAtItsLimit(t *testing.T) {
	for name, secrets := range map[string]*Secrets{"splice": nil, "with secrets": secretsOf(t, "secret")} {
		t.Run(name, func(t *testing.T) {
			full := newLog(t, 10, secrets)
			require.NoError(t, full.copied(t, Stdout, []byte("0123456789")), "exactly the limit")
			assert.ErrorIs(t, full.copied(t, Stderr, []byte("x")), ErrLimit)
			assert.NoError(t, full.copied(t, Stderr, nil))
			assert.Equal(t, "0123456789", string(full.content(t)))

			beyond := newLog(t, 10, secrets)
			assert.ErrorIs(t, beyond.copied(t, Stdout, make([]byte, 1<<20)), ErrLimit)
			assert.Len(t, beyond.content(t), 10)
			assert.Len(t, beyond.records(t), 1)
		})
	}
}

func TestIndexHasALimit(t *testing.T) {
	const limit = 100_000
	l := newLog(t, limit, nil)
	var err error
	for range limit {
		if err = l.write(Stdout, []byte("x")); err != nil {
			break
		}
	}
	assert.ErrorIs(t, err, ErrLimit)
	assert.Len(t, l.records(t), int(maxIndex(limit)/recordSize))
	assert.LessOrEqual(t, l.Bytes(), int64(limit))
}

func TestCopyEndsWhileAnotherProcessHoldsThePipe(t *testing.T) {
	l := newLog(t, 1<<20, nil)
	r, w := pipe(t)
	_, err := w.WriteString("before")
	require.NoError(t, err)
	done := make(chan error)
	go func() { done <- l.Copy(Stdout, r) }()
	require.NoError(t, r.SetReadDeadline(time.Now()))
	require.NoError(t, <-done)
	assert.Equal(t, "before", string(l.content(t)))
}

// After the deadline the copy is bounded, even if the pipe is never empty.
func TestCopyEndsWhileAnotherProcessWrites(t *testing.T) {
	l := newLog(t, 1<<40, nil)
	r, w := pipe(t)
	go func() {
		for block := make([]byte, 1<<16); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}()
	done := make(chan error)
	go func() { done <- l.Copy(Stdout, r) }()
	require.NoError(t, r.SetReadDeadline(time.Now()))
	assert.NoError(t, <-done)
}

func TestHeldBackBytesAreWrittenAtTheEnd(t *testing.T) {
	l := newLog(t, 1<<20, secretsOf(t, "hunter2"))
	require.NoError(t, l.copied(t, Stdout, []byte("hunter2 hunt")))
	assert.Equal(t, "*** hunt", string(l.content(t)))
}

func TestTimesDoNotDecrease(t *testing.T) {
	l := newLog(t, 1<<20, nil)
	future := time.Now().Add(time.Hour).UnixNano() // the clock was set back since
	l.last.time = future
	require.NoError(t, l.write(Stdout, []byte("x")))
	assert.Equal(t, future, l.records(t)[0].time)
}

// A file system that is full: the log has what fitted, and its records are true.
func TestDiskIsFull(t *testing.T) {
	for name, secrets := range map[string]*Secrets{"splice": nil, "with secrets": secretsOf(t, "not in here at all")} {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() != 0 {
				t.Skip("only root mounts a file system")
			}
			dir := t.TempDir()
			require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			l := written{output: filepath.Join(dir, "output"), index: filepath.Join(t.TempDir(), "index")}
			var err error
			l.Writer, err = NewWriter(create(t, l.output, 0), create(t, l.index, 0), 1<<30, secrets)
			require.NoError(t, err)

			err = l.copied(t, Stdout, make([]byte, 1<<20))
			assert.ErrorIs(t, err, unix.ENOSPC)
			assert.ErrorContains(t, err, "cannot copy the command's stdout: ")
			records := l.records(t)
			assert.EqualValues(t, len(l.content(t)), records[len(records)-1].end)
			assert.EqualValues(t, 256<<10, l.Bytes())
		})
	}
}

func TestFilesThatCannotBeALog(t *testing.T) {
	dir := t.TempDir()
	fresh := create(t, filepath.Join(dir, "fresh"), 0)
	_, err := NewWriter(create(t, filepath.Join(dir, "append"), os.O_APPEND), fresh, 1, nil)
	assert.ErrorContains(t, err, "append: it is open for append: open it without O_APPEND")
	used := create(t, filepath.Join(dir, "used"), 0)
	_, err = io.WriteString(used, "old")
	require.NoError(t, err)
	_, err = NewWriter(fresh, used, 1, nil)
	assert.ErrorContains(t, err, "used: it has 3 bytes already: a log is written once")
	_, err = NewWriter(fresh, fresh, 0, nil)
	assert.EqualError(t, err, "an output limit of 0 bytes is out of range: use at least 1")
}

// What is passed on is what the log has: without secrets, and up to the limit.
func TestAlso(t *testing.T) {
	secrets, err := NewSecrets(map[string][]byte{"TOKEN": []byte("secret-value")})
	require.NoError(t, err)
	for _, secrets := range []*Secrets{nil, secrets} {
		l := newLog(t, 10, secrets)
		var passed []byte
		l.Also(func(stream Stream, added []byte) {
			assert.Equal(t, Stderr, stream)
			passed = append(passed, added...)
		})
		assert.ErrorIs(t, l.copied(t, Stderr, []byte("a secret-value and more of it")), ErrLimit)
		assert.Equal(t, string(l.content(t)), string(passed))
		assert.Len(t, passed, 10)
	}
}
