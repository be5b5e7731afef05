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

// readBody reads a JSON body within the limits on size, time and memory, and those of
// its key.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	if r.ContentLength > s.BodyLimit { // before anything is held or read; the server closes the connection
		return nil, s.bodyTooLarge()
	}
	if err := exchangeOf(r).held.take(r.Context(), expected(max(0, r.ContentLength))); err != nil { // more is counted as it comes
		return nil, err
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, fmt.Errorf("cannot bound the reading of a body: %w", err)
	}
	body, err := s.receive(w, r)
	var beyond *http.MaxBytesError
	var known *openai.Error
	switch {
	case errors.As(err, &beyond):
		return nil, s.bodyTooLarge()
	case errors.As(err, &known):
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, openai.Invalid("body_timeout", "", fmt.Sprintf("the body did not arrive within %s", bodyTimeout))
	case err != nil: // cut off, or badly framed: whoever still listens is told
		return nil, openai.Invalid("body_unreadable", "", "the body did not arrive whole: "+err.Error())
	}
	// Without a deadline the server notices when the client goes away.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("cannot end the reading of a body: %w", err)
	}
	return body, s.weigh(r.Context(), exchangeOf(r), body)
}

// receive reads a body.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limited := http.MaxBytesReader(w, r.Body, s.BodyLimit)
	if r.ContentLength < 0 {
		return readAll(limited, s.BodyLimit, func(bytes int64) error {
			if err := exchangeOf(r).held.reach(r.Context(), bytes); err != nil {
				return err
			}
			return http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		})
	}
	var body bytes.Buffer
	body.Grow(int(r.ContentLength) + bytes.MinRead) // nothing has to be copied then as it grows
	_, err := body.ReadFrom(limited)
	return body.Bytes(), err
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
