package admission

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// words are bytes that a coding makes smaller, but not by much.
func words(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte('a' + random.IntN(16))
	}
	return b
}

func zstdOf(t testing.TB, body []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var coded bytes.Buffer
	w, err := zstd.NewWriter(&coded, options...)
	require.NoError(t, err)
	_, err = w.Write(body)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return coded.Bytes()
}

func gzipOf(t testing.TB, body []byte) []byte {
	t.Helper()
	var coded bytes.Buffer
	w := gzip.NewWriter(&coded)
	_, err := w.Write(body)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return coded.Bytes()
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Decoding takes no more memory than is charged for it.
func TestCodingMemory(t *testing.T) {
	const room = 2 << 20 // what a body has beyond the window, so that the window becomes full
	plain := words(maxWindow + room)
	quick := []zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)} // for small windows
	for name, coded := range map[string][]byte{
		"gzip": gzipOf(t, plain[:2*room]),
		"zstd": zstdOf(t, plain[:100], zstd.WithSingleSegment(true)),
	} {
		measure(t, name, name, coded)
	}
	for window := 1 << 10; window <= maxWindow; window *= 16 {
		measure(t, "zstd", "zstd with a window", zstdOf(t, plain[:window+room], append(quick, zstd.WithWindowSize(window))...))
	}
	measure(t, "zstd", "zstd with the largest window", zstdOf(t, plain, append(quick, zstd.WithWindowSize(maxWindow))...))
}

func measure(t *testing.T, coding, name string, coded []byte) {
	t.Helper()
	before := heap()
	body, err := codings[coding](newSource(bytes.NewReader(coded)))
	require.NoError(t, err)
	piece, most := make([]byte, 64<<10), int64(0)
	for err == nil {
		for n := 0; err == nil && n < 1<<20; {
			var read int
			read, err = body.Read(piece)
			n += read
		}
		most = max(most, heap()-before)
	}
	require.Equal(t, io.EOF, err)
	body.close()
	t.Logf("%s: %d of %d bytes", name, most, body.memory)
	assert.LessOrEqual(t, most, body.memory, name)
}

// No frame may have a larger window than the first one, for which memory is charged, and that one not more than 8 MiB.
func TestWindows(t *testing.T) {
	plain := words(4 << 20)
	small, large := zstdOf(t, plain[:100]), zstdOf(t, plain, zstd.WithWindowSize(4<<20))
	for name, tc := range map[string]struct {
		coded []byte
		fails bool
	}{
		"two frames":             {append(bytes.Clone(large), large...), false},
		"a smaller one after it": {append(bytes.Clone(large), small...), false},
		"a larger one after it":  {append(bytes.Clone(small), large...), true},
		"too large":              {zstdOf(t, plain, zstd.WithWindowSize(16<<20)), true},
		"a frame to skip":        {append([]byte{0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 'a', 'b'}, large...), false},
	} {
		from := newSource(bytes.NewReader(tc.coded))
		body, err := openZstd(from)
		if err == nil {
			_, err = io.Copy(io.Discard, body)
			body.close()
		}
		if tc.fails {
			assert.ErrorContains(t, from.explain("zstd", err), "is larger than 8388608 bytes", name)
		} else {
			assert.NoError(t, err, name)
		}
	}
}
