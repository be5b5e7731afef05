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

// maxTrusted is how much memory a client gets for saying that it will send that.
const maxTrusted = 1 << 20

// readBody reads a JSON body within the limits on size and time.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, fmt.Errorf("cannot bound the reading of a body: %w", err)
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), maxTrusted)) + bytes.MinRead) // nothing has to be copied then as it grows
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, s.BodyLimit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &openai.Error{
			Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest, Code: "request_too_large",
			Message: fmt.Sprintf("the body is larger than the limit of %d bytes (body_limit)", s.BodyLimit),
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, openai.Invalid("body_timeout", "", fmt.Sprintf("the body did not arrive within %s", bodyTimeout))
	case err != nil: // cut off, or badly framed: whoever still listens is told
		return nil, openai.Invalid("body_unreadable", "", "the body did not arrive whole: "+err.Error())
	}
	// Without a deadline the server notices when the client goes away.
	return body.Bytes(), control.SetReadDeadline(time.Time{})
}

func checkContentType(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && kind == "application/json" {
		return nil
	}
	return &openai.Error{
		Status: http.StatusUnsupportedMediaType, Type: openai.TypeInvalidRequest, Code: "unsupported_media_type",
		Message: "send the body as Content-Type: application/json",
	}
}
