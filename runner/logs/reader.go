package logs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"time"
)

const (
	readSize   = 64 << 10 // the largest chunk that a Reader returns
	recordsPer = 256      // records of the index that it reads at once
)

// A Chunk is a run of bytes of one stream.
type Chunk struct {
	Time   time.Time // when the Writer read the bytes; the zero Time if the stream is Unknown
	Stream Stream
	Offset int64 // of the first byte in the output
	Data   []byte
}

// End is the offset behind the chunk, from which to read on.
func (c Chunk) End() int64 { return c.Offset + int64(len(c.Data)) }

// A Span is a Chunk without its bytes: they are in the file Output of the Reader, Size of them.
type Span struct {
	Time         time.Time
	Stream       Stream
	Offset, Size int64
}

// spanSize is the largest Span that a Reader returns.
const spanSize = 512 << 10

// A Reader reads a log from an offset of its output on, while it is written or later. It belongs to one goroutine.
type Reader struct {
	output, index *os.File
	offset        int64 // of the next chunk of Next
	complete      bool

	next    int64 // the number of the first record that is not in records
	ahead   [recordsPer * recordSize]byte
	records []byte // of the index, in ahead
	at      record // the record of offset, if at.end > offset

	buffer []byte // bytes of the output
	begin  int64  // the offset of buffer
	size   int64  // that the output has at least
}

// Open opens the log in the files output and index to read it from the given offset of the output, which may be
// beyond the output's end. The caller closes the Reader.
func Open(output, index string, offset int64) (*Reader, error) {
	if offset < 0 {
		return nil, fmt.Errorf("the offset %d is out of range: a log begins at 0", offset)
	}
	r := &Reader{offset: offset}
	err := r.open(output, index)
	if err == nil {
		err = r.seek()
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("cannot read the log: %w", err)
	}
	return r, nil
}

func (r *Reader) open(output, index string) (err error) {
	if r.output, err = os.Open(output); err == nil {
		r.index, err = os.Open(index)
	}
	return err
}

// Close closes the files.
func (r *Reader) Close() {
	_ = r.output.Close() // a nil file only returns an error
	_ = r.index.Close()
}

// Offset is the offset of the output from which Next reads on.
func (r *Reader) Offset() int64 { return r.offset }

// Complete marks the end of the writing process. From then on Next returns a tail of the output without records too, as
// chunks of the stream Unknown.
func (r *Reader) Complete() { r.complete = true }

// Next returns the next bytes, at most 64 KiB of one record. Their memory is valid until the next call. The error is
// io.EOF if there are no more at the moment; Next may then be called again later.
func (r *Reader) Next() (Chunk, error) {
	current, err := r.current()
	if err != nil {
		return Chunk{}, err
	}
	data, err := r.bytes(current.end)
	if err != nil {
		return Chunk{}, err
	}
	c := Chunk{Stream: current.stream, Offset: r.offset, Data: data}
	if current.stream != Unknown {
		c.Time = time.Unix(0, current.time)
	}
	r.offset += int64(len(data))
	return c, nil
}

// NextSpan is Next without reading the bytes, at most 512 KiB.
func (r *Reader) NextSpan() (Span, error) {
	current, err := r.current()
	if err != nil {
		return Span{}, err
	}
	if current.end > r.size { // a record may be on the disk without its bytes after a crash of the host
		info, err := r.output.Stat()
		if err != nil {
			return Span{}, err
		}
		r.size = info.Size()
	}
	s := Span{Stream: current.stream, Offset: r.offset, Size: min(current.end, r.size, r.offset+spanSize) - r.offset}
	if s.Size <= 0 {
		return Span{}, io.EOF
	}
	if current.stream != Unknown {
		s.Time = time.Unix(0, current.time)
	}
	r.offset += s.Size
	return s, nil
}

// Output is the file with the bytes of spans. The Reader closes it.
func (r *Reader) Output() *os.File { return r.output }

// seek finds the first record that ends behind the offset. Records that no writer wrote are at the end, if anywhere.
func (r *Reader) seek() error {
	info, err := r.index.Stat()
	if err != nil {
		return err
	}
	n := int(info.Size() / recordSize)
	r.next = int64(sort.Search(n, func(i int) bool {
		b := make([]byte, recordSize)
		if _, failed := r.index.ReadAt(b, int64(i)*recordSize); failed != nil {
			err = failed
			return true
		}
		record, damaged := decode(b)
		return damaged != nil || record.end > r.offset
	}))
	return err
}

// current returns the record of the byte at the offset, or the tail of a complete log.
func (r *Reader) current() (record, error) {
	current, err := r.record()
	if errors.Is(err, io.EOF) && r.complete {
		return r.tail()
	}
	return current, err
}

// record returns the record of the byte at the offset, and io.EOF at the end of the index.
func (r *Reader) record() (record, error) {
	for r.at.end <= r.offset {
		if len(r.records) < recordSize {
			if err := r.readAhead(); err != nil {
				return record{}, err
			}
		}
		next, err := decode(r.records)
		if err != nil || next.end <= r.at.end {
			r.records = nil // the record is read again, as long as it is not true
			return record{}, io.EOF
		}
		r.at, r.records, r.next = next, r.records[recordSize:], r.next+1
	}
	return r.at, nil
}

// readAhead reads records from the number next on.
func (r *Reader) readAhead() error {
	n, err := r.index.ReadAt(r.ahead[:], r.next*recordSize)
	if n < recordSize {
		return err
	}
	r.records = r.ahead[:n/recordSize*recordSize]
	return nil
}

// tail is a record for the bytes that have none.
func (r *Reader) tail() (record, error) {
	info, err := r.output.Stat()
	if err != nil {
		return record{}, err
	}
	if info.Size() <= r.offset {
		return record{}, io.EOF
	}
	return record{end: info.Size(), stream: Unknown}, nil
}

// bytes returns bytes of the output from the offset on, at most up to end; at least one, or an error.
func (r *Reader) bytes(end int64) ([]byte, error) {
	if r.offset >= r.begin+int64(len(r.buffer)) {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	data := r.buffer[r.offset-r.begin:]
	return data[:min(int64(len(data)), end-r.offset)], nil
}

func (r *Reader) fill() error {
	if r.buffer == nil {
		r.buffer = make([]byte, readSize)
	}
	n, err := r.output.ReadAt(r.buffer[:readSize], r.offset)
	r.buffer, r.begin = r.buffer[:n], r.offset
	if n > 0 {
		return nil
	}
	return err
}
