package logs

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (l written) open(t testing.TB, offset int64) *Reader {
	t.Helper()
	r, err := Open(l.output, l.index, offset)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// chunks reads all that r has, with copies of the data.
func chunks(t testing.TB, r *Reader) []Chunk {
	t.Helper()
	var all []Chunk
	for {
		c, err := r.Next()
		if err == io.EOF { //nolint:errorlint // exactly this one
			return all
		}
		require.NoError(t, err)
		require.NotEmpty(t, c.Data)
		c.Data = bytes.Clone(c.Data)
		all = append(all, c)
	}
}

// linesOf likewise.
func linesOf(t testing.TB, lines *Lines) []Line {
	t.Helper()
	var all []Line
	for {
		line, err := lines.Next()
		if err == io.EOF { //nolint:errorlint // exactly this one
			return all
		}
		require.NoError(t, err)
		line.Text = bytes.Clone(line.Text)
		all = append(all, line)
	}
}

// shown is a list of lines for comparison.
func shown(lines []Line) []string {
	var all []string
	for _, line := range lines {
		text := line.Stream.String() + " " + string(line.Text)
		if line.Newline {
			text += "$"
		}
		all = append(all, text)
	}
	return all
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", longestLine)
	for name, c := range map[string]struct {
		chunks []string // of stderr if they begin with !
		want   []string
	}{
		"in a chunk":                {[]string{"a\nb\n"}, []string{"stdout a$", "stdout b$"}},
		"across chunks":             {[]string{"a", "b", "c\nd\n"}, []string{"stdout abc$", "stdout d$"}},
		"no newline at the end":     {[]string{"a\nb"}, []string{"stdout a$", "stdout b"}},
		"empty":                     {[]string{"\n", "\n\n"}, []string{"stdout $", "stdout $", "stdout $"}},
		"the newline comes later":   {[]string{"a", "\n"}, []string{"stdout a$"}},
		"parted by another stream":  {[]string{"a", "!b\n", "c\n"}, []string{"stdout a", "stderr b$", "stdout c$"}},
		"carriage returns are text": {[]string{"a\r\n"}, []string{"stdout a\r$"}},
		"no text":                   {[]string{"\x00\xff", "\n"}, []string{"stdout \x00\xff$"}},
		"the longest":               {[]string{long + "\n"}, []string{"stdout " + long, "stdout $"}},
		"longer than the longest":   {[]string{"x", long, "x\n"}, []string{"stdout " + long, "stdout xx$"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, 1<<30, nil)
			for _, chunk := range c.chunks {
				stream := Stdout
				if text, ok := strings.CutPrefix(chunk, "!"); ok {
					stream, chunk = Stderr, text
				}
				require.NoError(t, l.write(stream, []byte(chunk)))
			}
			assert.Equal(t, c.want, shown(linesOf(t, NewLines(l.open(t, 0)))))
		})
	}
}

// randomLog writes chunks of both streams, some of them longer than a Reader's memory.
func randomLog(t testing.TB, random *rand.Rand) written {
	t.Helper()
	l := newLog(t, 1<<30, nil)
	for range random.IntN(400) {
		n := 1 + random.IntN(20)
		if random.IntN(40) == 0 {
			n = 1 + random.IntN(3*readSize)
		}
		text := make([]byte, n)
		for i := range text {
			if text[i] = byte(random.Uint32()); random.IntN(min(n, 500)) == 0 {
				text[i] = '\n'
			}
		}
		require.NoError(t, l.write(Stream(1+random.IntN(2)), text))
	}
	return l
}

// From any offset, chunks and lines are the rest of the output, byte for byte, with the stream and the time of their
// records.
func TestReadingFromAnyOffset(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		l := randomLog(t, random)
		data, records := l.content(t), l.records(t)
		of := func(offset int64) record {
			i := sort.Search(len(records), func(i int) bool { return records[i].end > offset })
			return records[i]
		}
		for range 4 {
			offset := random.Int64N(int64(len(data)) + 1)
			at := offset
			for _, c := range chunks(t, l.open(t, offset)) {
				require.Equal(t, at, c.Offset)
				require.Equal(t, data[at:c.End()], c.Data)
				require.Equal(t, of(at), of(c.End()-1), "a chunk is of one record")
				require.Equal(t, of(at).stream, c.Stream)
				require.Equal(t, of(at).time, c.Time.UnixNano())
				at = c.End()
			}
			require.EqualValues(t, len(data), at)
			at = offset
			for _, line := range linesOf(t, NewLines(l.open(t, offset))) {
				require.Equal(t, at, line.Offset)
				require.Equal(t, data[at:at+int64(len(line.Text))], line.Text)
				require.NotContains(t, string(line.Text), "\n")
				require.Equal(t, of(at).stream, line.Stream)
				require.Equal(t, of(line.End()-1).stream, line.Stream, "a line is of one stream")
				require.Equal(t, of(at).time, line.Time.UnixNano())
				at = line.End()
				require.Equal(t, line.Newline, data[at-1] == '\n')
			}
			require.EqualValues(t, len(data), at)
		}
	}
}

func TestTailWithoutRecords(t *testing.T) {
	for name, damage := range map[string]func(index []byte) []byte{
		"the writer died before the record":   func(index []byte) []byte { return index[:recordSize] },
		"the writer died within the record":   func(index []byte) []byte { return index[:2*recordSize-3] },
		"the machine died: zeros":             func(index []byte) []byte { return append(index[:recordSize], make([]byte, 100)...) },
		"a record that ends before its begin": func(index []byte) []byte { return append(index[:recordSize], index[:recordSize]...) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, 1<<20, nil)
			require.NoError(t, l.write(Stderr, []byte("a\nb")))
			require.NoError(t, l.write(Stdout, []byte("c\nd")))
			index, err := os.ReadFile(l.index)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(l.index, damage(index), 0o600))

			r := l.open(t, 0)
			lines := NewLines(r)
			assert.Equal(t, []string{"stderr a$", "stderr b"}, shown(linesOf(t, lines)), "the writer may still live")
			r.Complete()
			tail := linesOf(t, lines)
			assert.Equal(t, []string{"unknown c$", "unknown d"}, shown(tail))
			assert.Zero(t, tail[0].Time)
			assert.EqualValues(t, 3, tail[0].Offset)

			r = l.open(t, 5)
			r.Complete()
			assert.Equal(t, []string{"unknown d"}, shown(linesOf(t, NewLines(r))))
		})
	}
}

// A machine that died may keep the index and lose the output.
func TestOutputIsShorterThanItsIndex(t *testing.T) {
	l := newLog(t, 1<<20, nil)
	require.NoError(t, l.write(Stdout, []byte("abc")))
	require.NoError(t, os.Truncate(l.output, 2))
	r := l.open(t, 0)
	r.Complete()
	assert.Equal(t, []string{"stdout ab"}, shown(linesOf(t, NewLines(r))))
}

func TestReadingBeyondTheEnd(t *testing.T) {
	l := newLog(t, 1<<20, nil)
	require.NoError(t, l.write(Stdout, []byte("abc")))
	r := l.open(t, 5)
	assert.Empty(t, chunks(t, r))
	require.NoError(t, l.write(Stdout, []byte("d")))
	require.NoError(t, l.write(Stdout, []byte("efg")))
	assert.Equal(t, "fg", string(chunks(t, r)[0].Data))
	assert.EqualValues(t, 7, r.Offset())

	_, err := Open(l.output, l.index, -1)
	assert.EqualError(t, err, "the offset -1 is out of range: a log begins at 0")
	_, err = Open(l.output, l.index+"x", 0)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// FuzzReader reads logs of any bytes: it ends, reads the output byte for byte, and never fails.
func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nb\nc"), record{2, 1, Stdout}.append(nil), int64(0))
	f.Add([]byte("a\nb\nc"), record{4, 1, Stderr}.append(record{2, 1, Stdout}.append(nil)), int64(1))
	f.Add([]byte("abc"), make([]byte, 3*recordSize), int64(3))
	f.Fuzz(func(t *testing.T, output, index []byte, offset int64) {
		l := newLog(t, 1<<20, nil)
		require.NoError(t, os.WriteFile(l.output, output, 0o600))
		require.NoError(t, os.WriteFile(l.index, index, 0o600))
		r, err := Open(l.output, l.index, max(0, offset))
		require.NoError(t, err)
		defer r.Close()
		r.Complete()
		var read []byte
		for _, line := range linesOf(t, NewLines(r)) {
			if read = append(read, line.Text...); line.Newline {
				read = append(read, '\n')
			}
		}
		assert.Equal(t, string(output[min(max(0, offset), int64(len(output))):]), string(read))
	})
}
