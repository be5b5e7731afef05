package modelproxy

import (
	"io"
	"net/http"
	"sync/atomic"
)

// maxKept bounds the bodies that are kept at one time, in bytes.
const maxKept = 96 << 20

// bodies keeps the bodies of requests, so that they can be sent again. codex sends those again itself for which there
// is no room.
type bodies struct{ bytes atomic.Int64 }

// kept is the body of a request.
type kept struct {
	kept    bool
	text    []byte
	release func() // ends the keeping
}

// keep reads the body of a request, if there is room for it.
func (k *bodies) keep(r *http.Request) (*kept, error) {
	size := r.ContentLength
	if size < 0 || size > maxKept {
		return &kept{release: func() {}}, nil
	}
	if k.bytes.Add(size) > maxKept {
		k.bytes.Add(-size)
		return &kept{release: func() {}}, nil
	}
	b := &kept{kept: true, release: func() { k.bytes.Add(-size) }, text: make([]byte, size)}
	if _, err := io.ReadFull(r.Body, b.text); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// ending is a body that ends with its size and is not read again then. The transport of net/http looks for more; if the
// answer has come before that look, the server has closed the body, the look fails, and with it the connection.
func ending(body io.ReadCloser, size int64) io.ReadCloser {
	if size <= 0 {
		return body
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(body, size), body}
}
