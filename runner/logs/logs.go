// Package logs keeps the output of a command in two files: `output` has the bytes as the command wrote them, and
// `index` a record of fixed size for each chunk of them. The main process of the session writes the files (Writer); any
// number of processes read them meanwhile (Reader, Follower), independently of each other.
//
// A record has the end, the stream and the time of a chunk. The chunk begins where the one before it ends. A Writer
// writes a chunk before its record and changes nothing that it has written: a record is true as soon as it is there. If
// the writing process dies in between, the output has a tail without a record, with the stream Unknown. Lines are not
// written: readers compute them, which keeps 100 MB of output cheap to write.
package logs

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Stream is the file descriptor to which the command wrote a chunk.
type Stream uint8

// The streams. Unknown is the stream of bytes without a record.
const (
	Unknown Stream = 0
	Stdout  Stream = 1
	Stderr  Stream = 2
)

// String is the name of the stream in the API: stdout, stderr or unknown.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	default:
		return "unknown"
	}
}

// MarshalText is String, for JSON.
func (s Stream) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (s *Stream) UnmarshalText(text []byte) error {
	for _, stream := range []Stream{Unknown, Stdout, Stderr} {
		if string(text) == stream.String() {
			*s = stream
			return nil
		}
	}
	return fmt.Errorf("%q is no stream: stdout, stderr or unknown", text)
}

const (
	recordSize = 16
	streamBits = 2
	// sparse is the size of an index, in bytes, that is always allowed. Beyond it, an index may be as large as the
	// limit of its output: chunks of the size of a record on average, 16 bytes.
	sparse = 1 << 20
)

// maxIndex is the largest size, in bytes, of the index of a log with the given limit.
func maxIndex(limit int64) int64 { return (limit + sparse) / recordSize * recordSize }

// A record of the index: the chunk ends before the offset end of the output.
type record struct {
	end    int64
	time   int64 // nanoseconds since 1970
	stream Stream
}

// append encodes the record: two little-endian words, the end shifted by streamBits with the stream below it, and the
// time.
func (r record) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.end)<<streamBits|uint64(r.stream))
	return binary.LittleEndian.AppendUint64(b, uint64(r.time))
}

// errDamaged is the error of decode for bytes that no Writer wrote: a crash of the machine may leave zeros at the end
// of an index.
var errDamaged = errors.New("the index has a record that no writer wrote")

// decode is the inverse of append. A chunk has at least one byte.
func decode(b []byte) (record, error) {
	word := binary.LittleEndian.Uint64(b)
	r := record{
		end:    int64(word >> streamBits),
		time:   int64(binary.LittleEndian.Uint64(b[8:])),
		stream: Stream(word & (1<<streamBits - 1)),
	}
	if r.end == 0 || (r.stream != Stdout && r.stream != Stderr) {
		return record{}, errDamaged
	}
	return r, nil
}
