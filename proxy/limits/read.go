package limits

import "io"

// firstRead is how much of a body of unknown size is read before memory is acquired.
const firstRead = 16 << 10

// ReadAll reads a body of unknown size, up to limit bytes and one more: that one is the
// sign of a longer body. reserve is called with the number of bytes before they are read.
func ReadAll(from io.Reader, limit int64, reserve func(bytes int64) error) ([]byte, error) {
	b := make([]byte, 0, min(firstRead, limit+1))
	for {
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF || int64(len(b)) > limit:
			return b, nil
		case err != nil:
			return nil, err
		case len(b) < cap(b):
			continue
		}
		size := min(4*int64(cap(b)), limit+1)
		if err := reserve(PerByte * size); err != nil {
			return nil, err
		}
		b = append(make([]byte, 0, size), b...)
	}
}
