package logs

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const benchmarked = 100_000_000 // bytes

// BenchmarkFollow copies 100 MB from another process into a log, beside a follower that reads all of it. Compare it
// with BenchmarkCat.
func BenchmarkFollow(b *testing.B) { benchmarkLog(b, true) }

// BenchmarkWriter is BenchmarkFollow without the follower.
func BenchmarkWriter(b *testing.B) { benchmarkLog(b, false) }

func benchmarkLog(b *testing.B, follow bool) {
	w := watching(b)
	b.SetBytes(benchmarked)
	var cpu time.Duration
	for b.Loop() {
		l := newLog(b, 1<<30, nil)
		r, source := produce(b)
		ended := make(chan struct{})
		began := used(b, unix.RUSAGE_SELF)
		seen := make(chan int64, 1)
		if follow {
			go func() { seen <- discard(w, l.open(b, 0), ended) }()
		} else {
			seen <- benchmarked
		}
		require.NoError(b, l.Copy(Stdout, r))
		close(ended)
		require.EqualValues(b, benchmarked, <-seen)
		cpu += used(b, unix.RUSAGE_SELF) - began
		require.NoError(b, source.Wait())
		require.NoError(b, os.Remove(l.output))
	}
	b.ReportMetric(cpu.Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// discard follows the log to its end and returns the number of bytes.
func discard(w *Watcher, r *Reader, ended <-chan struct{}) int64 {
	f, err := w.Follow(r, ended)
	if err != nil {
		return -1
	}
	defer f.Close()
	for err == nil {
		for err == nil {
			_, err = r.Next()
		}
		if err == io.EOF { //nolint:errorlint // exactly this one
			err = f.Wait(context.Background())
		}
	}
	return r.Offset()
}

// BenchmarkCat is cat(1) instead of a Writer.
func BenchmarkCat(b *testing.B) {
	b.SetBytes(benchmarked)
	var cpu time.Duration
	for b.Loop() {
		r, source := produce(b)
		output := create(b, filepath.Join(b.TempDir(), "output"), 0)
		cat := exec.Command("cat")
		cat.Stdin, cat.Stdout = r, output
		require.NoError(b, cat.Run())
		cpu += cat.ProcessState.UserTime() + cat.ProcessState.SystemTime()
		require.NoError(b, source.Wait())
		require.NoError(b, os.Remove(output.Name()))
	}
	b.ReportMetric(cpu.Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// produce starts a process that writes into the pipe.
func produce(b *testing.B) (*os.File, *exec.Cmd) {
	b.Helper()
	r, w := pipe(b)
	source := exec.Command("head", "-c", "100000000", "/dev/zero")
	source.Stdout = w
	require.NoError(b, source.Start())
	require.NoError(b, w.Close())
	return r, source
}

// used is the CPU time so far.
func used(b *testing.B, who int) time.Duration {
	b.Helper()
	var usage unix.Rusage
	require.NoError(b, unix.Getrusage(who, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
