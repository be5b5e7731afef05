package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"time"

	"codex-proxy/proxy/openai"
)

// bodyTimeout bounds the reading of a request body.
const bodyTimeout = time.Minute

// readBody reads a JSON body within the limits on size, time and memory.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	x, size := exchangeOf(r), r.ContentLength
	switch {
	case size > s.BodyLimit: // before anything is held or read; the server closes the connection
		return nil, s.bodyTooLarge()
	case size < 0:
		size = s.BodyLimit
	}
	if err := x.held.take(r.Context(), size); err != nil {
		return nil, err
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, fmt.Errorf("cannot bound the reading of a body: %w", err)
	}
	var body bytes.Buffer
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead) // nothing has to be copied then as it grows
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, s.BodyLimit))
	var beyond *http.MaxBytesError
	switch {
	case errors.As(err, &beyond):
		return nil, s.bodyTooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, openai.Invalid("body_timeout", "", fmt.Sprintf("the body did not arrive within %s", bodyTimeout))
	case err != nil: // cut off, or badly framed: whoever still listens is told
		return nil, openai.Invalid("body_unreadable", "", "the body did not arrive whole: "+err.Error())
	}
	x.held.keep(int64(body.Len()))
	// Without a deadline the server notices when the client goes away.
	return body.Bytes(), control.SetReadDeadline(time.Time{})
}

func (s *Server) bodyTooLarge() error {
	return tooLarge("", fmt.Sprintf("the body is larger than the limit of %d bytes (body_limit)", s.BodyLimit))
}

func checkContentType(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return unsupportedMedia(fmt.Sprintf("send the body as it is, without Content-Encoding: %s", bounded(coding)))
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && kind == "application/json" {
		return nil
	}
	return unsupportedMedia("send the body as Content-Type: application/json")
}

func unsupportedMedia(message string) error {
	return &openai.Error{Status: http.StatusUnsupportedMediaType, Type: openai.TypeInvalidRequest, Code: "unsupported_media_type", Message: message}
}
