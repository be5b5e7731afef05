package admission

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"time"

	"codex-proxy/proxy"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// read reads a JSON body within the limits on size, time and memory.
func (in *Controller) read(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) ([]byte, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	coding, err := coding(r)
	if err != nil {
		return nil, err
	}
	if r.ContentLength > in.BodyLimit { // before anything is charged or read; the server closes the connection
		return nil, in.bodyTooLarge()
	}
	expected := limits.Expected(max(0, r.ContentLength)) // of an unknown length, more is charged as it arrives
	if err := x.Grant.Body.Acquire(r.Context(), expected); err != nil {
		return nil, err
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(proxy.BodyTimeout)); err != nil {
		return nil, fmt.Errorf("cannot bound the reading of a body: %w", err)
	}
	body, err := in.receive(w, r, x, coding)
	var beyond *http.MaxBytesError
	var known *openai.Error
	switch {
	case errors.As(err, &beyond):
		return nil, in.bodyTooLarge()
	case errors.As(err, &known):
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, openai.Invalid("body_timeout", "",
			fmt.Sprintf("the body did not arrive within %s", proxy.BodyTimeout))
	case err != nil: // cut off, or badly framed; the client may still read
		return nil, openai.Invalid("body_unreadable", "", "the body did not arrive whole: "+err.Error())
	}
	// Without a deadline the server notices when the client goes away.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("cannot end the reading of a body: %w", err)
	}
	return bytes.TrimPrefix(body, byteOrderMark), nil
}

// byteOrderMark begins a text of some Windows programs. RFC 8259, section 8.1, lets parsers ignore it.
var byteOrderMark = []byte("\xef\xbb\xbf")

// reading is how the body of the request is to be decoded.
func (in *Controller) reading(x *proxy.Exchange) jsonbody.Reading {
	ignore := in.IgnoreUnknown
	if own := x.Key.Limits.UnknownParameters; own != "" {
		ignore = own == auth.Ignore
	}
	return jsonbody.Reading{IgnoreUnknown: ignore, Model: x.PathModel}
}

// receive reads a body within the limits on size and memory.
func (in *Controller) receive(w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	coding string) ([]byte, error) {
	limited := http.MaxBytesReader(w, r.Body, in.BodyLimit)
	switch {
	case coding != "":
		return in.decode(w, r, x, coding, newSource(limited))
	case r.ContentLength < 0:
		return limits.ReadAll(limited, in.BodyLimit, in.reserve(w, r, x, 0))
	}
	var body bytes.Buffer
	body.Grow(int(r.ContentLength) + bytes.MinRead) // so that nothing is copied as it grows
	_, err := body.ReadFrom(limited)
	return body.Bytes(), err
}

// decode decodes a body within the limits, which hold before and after that.
func (in *Controller) decode(w http.ResponseWriter, r *http.Request, x *proxy.Exchange, coding string,
	from *source) ([]byte, error) {
	body, err := codings[coding](from)
	if err != nil {
		return nil, from.explain(coding, err)
	}
	defer body.close()
	reserve := in.reserve(w, r, x, body.memory)
	if err := reserve(0); err != nil {
		return nil, err
	}
	var refused error
	all, err := limits.ReadAll(body, in.BodyLimit, func(bytes int64) error {
		refused = reserve(bytes)
		return refused
	})
	switch {
	case refused != nil:
		return nil, refused
	case err == nil && int64(len(all)) > in.BodyLimit:
		return nil, in.bodyTooLarge()
	}
	return all, from.explain(coding, err)
}

// reserve acquires memory for a body of unknown size as it arrives, in addition to other bytes, and gives it more time.
func (in *Controller) reserve(w http.ResponseWriter, r *http.Request, x *proxy.Exchange,
	beside int64) func(bytes int64) error {
	return func(bytes int64) error {
		if err := x.Grant.Body.Reach(r.Context(), beside+bytes); err != nil {
			return err
		}
		return http.NewResponseController(w).SetReadDeadline(time.Now().Add(proxy.BodyTimeout))
	}
}

func (in *Controller) bodyTooLarge() error {
	return openai.TooLarge("", fmt.Sprintf("the body is larger than the limit of %d bytes (body_limit)", in.BodyLimit))
}

func checkContentType(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && kind == "application/json" {
		return nil
	}
	return unsupportedMedia("send the body as Content-Type: application/json")
}

func unsupportedMedia(message string) *openai.Error {
	return &openai.Error{
		Status: http.StatusUnsupportedMediaType, Type: openai.TypeInvalidRequest, Code: "unsupported_media_type",
		Message: message,
	}
}
