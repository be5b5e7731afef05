package admission

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"

	"codex-proxy/proxy/openai"
)

const (
	// maxWindow bounds the window of zstd: RFC 8878, section 3.1.1.1.2, has decoders support 8 MiB, and encoders use no
	// more by default.
	maxWindow = 8 << 20
	// gzipMemory and zstdMemory are the memory of a decoder in addition to the window; TestCodingMemory measures them.
	gzipMemory = 128 << 10
	zstdMemory = 1 << 20
)

// coded is a body in one of the codings that are accepted (RFC 9110, section 8.4).
type coded struct {
	io.Reader

	source *source
	memory int64 // that decoding takes
	close  func()
}

// codings open a body by the name of its coding.
var codings = map[string]func(*source) (*coded, error){"gzip": openGzip, "x-gzip": openGzip, "zstd": openZstd}

// coding is the name of the coding of a body; empty: it has none. The error is an *openai.Error.
func coding(r *http.Request) (string, error) {
	name := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ", ")))
	if name == "" || name == "identity" {
		return "", nil
	}
	if _, ok := codings[name]; !ok {
		refusal := unsupportedMedia(fmt.Sprintf("send the body as it is, or with Content-Encoding: gzip or zstd, not %s",
			openai.Bounded(name)))
		refusal.Header = http.Header{"Accept-Encoding": {"gzip, zstd"}}
		return "", refusal
	}
	return name, nil
}

// source is a body as received. It keeps the error of its reader, which decoders may hide.
type source struct {
	*bufio.Reader
	err error
}

// newSource reads from a body, which is no *bytes.Buffer: zstd would decode that at once, whatever its size.
func newSource(body io.Reader) *source {
	s := &source{}
	s.Reader = bufio.NewReader(readerFunc(func(b []byte) (int, error) {
		n, err := body.Read(b)
		if err != nil && !errors.Is(err, io.EOF) {
			s.err = err
		}
		return n, err
	}))
	return s
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func openGzip(from *source) (*coded, error) {
	r, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	return &coded{Reader: r, source: from, memory: gzipMemory, close: func() {}}, nil
}

// openZstd allows no frame a larger window than the first one has.
func openZstd(from *source) (*coded, error) {
	window, err := windowOf(from)
	if err != nil {
		return nil, err
	}
	r, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(max(window, zstd.MinWindowSize)))
	if err != nil {
		return nil, err
	}
	return &coded{Reader: r, source: from, memory: int64(window) + min(int64(window), 1<<20) + zstdMemory,
		close: r.Close}, nil
}

// windowOf is the window of the first frame, which is not read yet.
func windowOf(from *source) (uint64, error) {
	head, err := from.Peek(zstd.HeaderMaxSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	var first zstd.Header
	if err := first.Decode(head); err != nil {
		return 0, err
	}
	window := first.WindowSize
	switch {
	case first.Skippable:
		window = maxWindow
	case first.SingleSegment:
		window = first.FrameContentSize
	}
	if window > maxWindow {
		return 0, zstd.ErrWindowSizeExceeded
	}
	return window, nil
}

// explain is the error of a coded body for its client: the error of its reader, or of the decoder.
func (s *source) explain(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case s.err != nil:
		return s.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return openai.TooLarge("",
			fmt.Sprintf("the window of the zstd body is larger than %d bytes; compress it with a "+
				"smaller one (--zstd=wlog=23)", maxWindow))
	}
	return openai.Invalid("body_unreadable", "", fmt.Sprintf("the body is not what Content-Encoding says: %s: %v", name,
		err))
}
