package logs

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// longestLine bounds the bytes of a Line. Next returns a longer line in parts.
const longestLine = 64 << 10

// A Line is a line of one stream, or a part of a line: a line is parted where bytes of the other stream are in between,
// at each 64 KiB, and at the present end of a log that is still written. Newline is true for a line or its last part.
// Text and newlines of all lines together are the output, byte for byte.
type Line struct {
	Time    time.Time // of the chunk with the first byte
	Stream  Stream
	Offset  int64  // of the first byte in the output
	Text    []byte // without the newline
	Newline bool   // a newline follows in the output: the line ends here
}

// End is the offset behind the line and its newline, from which to read on.
func (l Line) End() int64 {
	end := l.Offset + int64(len(l.Text))
	if l.Newline {
		end++
	}
	return end
}

// Lines computes the lines of the chunks that a Reader returns. It belongs to one goroutine.
type Lines struct {
	reader *Reader
	chunk  Chunk  // the rest of the last chunk
	parted []byte // the memory of a line of several chunks
}

// NewLines returns the lines of the chunks that the Reader returns from now on.
func NewLines(r *Reader) *Lines { return &Lines{reader: r} }

// Next returns the next line. Its memory is valid until the next call. The error is io.EOF if the log has no more at
// the moment; Next may then be called again later.
func (l *Lines) Next() (Line, error) {
	if err := l.fill(); err != nil {
		return Line{}, err
	}
	line := Line{Time: l.chunk.Time, Stream: l.chunk.Stream, Offset: l.chunk.Offset}
	line.Text, line.Newline = l.take(longestLine)
	if line.Newline || len(l.chunk.Data) > 0 {
		return line, nil
	}
	l.parted = append(l.parted[:0], line.Text...) // the next chunk has its memory
	for !line.Newline && len(l.parted) < longestLine {
		err := l.fill()
		if errors.Is(err, io.EOF) || (err == nil && l.chunk.Stream != line.Stream) {
			break
		}
		if err != nil {
			return Line{}, err
		}
		text, newline := l.take(longestLine - len(l.parted))
		l.parted, line.Newline = append(l.parted, text...), newline
	}
	line.Text = l.parted
	return line, nil
}

// fill reads a chunk if there is no rest.
func (l *Lines) fill() error {
	if len(l.chunk.Data) > 0 {
		return nil
	}
	chunk, err := l.reader.Next()
	if err == nil {
		l.chunk = chunk
	}
	return err
}

// take takes text from the chunk, at most n bytes and the newline behind them, and reports whether there is one.
func (l *Lines) take(n int) (text []byte, newline bool) {
	data := l.chunk.Data
	text = data[:min(n, len(data))]
	if i := bytes.IndexByte(data[:min(n+1, len(data))], '\n'); i >= 0 {
		text, newline = data[:i], true
		data = data[i+1:]
	} else {
		data = data[len(text):]
	}
	l.chunk.Offset = l.chunk.End() - int64(len(data))
	l.chunk.Data = data
	return text, newline
}
