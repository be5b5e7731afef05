package intake

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
)

// read reads a JSON body within the limits on size, time and memory.
func (in *Intake) read(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) ([]byte, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	if r.ContentLength > in.BodyLimit { // before anything is charged or read; the server closes the connection
		return nil, in.bodyTooLarge()
	}
	expected := limits.Expected(max(0, r.ContentLength)) // of an unknown length, more is charged as it comes
	if err := x.Grant.Body.Acquire(r.Context(), expected); err != nil {
		return nil, err
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(proxy.BodyTimeout)); err != nil {
		return nil, fmt.Errorf("cannot bound the reading of a body: %w", err)
	}
	body, err := in.receive(w, r, x)
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
	return body, nil
}

// Reading is how the body of the request is to be decoded.
func (in *Intake) Reading(x *proxy.Exchange) openai.Reading {
	ignore := in.IgnoreUnknown
	if own := x.Key.Limits.UnknownParameters; own != "" {
		ignore = own == auth.Ignore
	}
	return openai.Reading{IgnoreUnknown: ignore, Model: x.PathModel}
}

// receive reads a body within the limits on size and memory.
func (in *Intake) receive(w http.ResponseWriter, r *http.Request, x *proxy.Exchange) ([]byte, error) {
	limited := http.MaxBytesReader(w, r.Body, in.BodyLimit)
	if r.ContentLength < 0 {
		return limits.ReadAll(limited, in.BodyLimit, func(bytes int64) error {
			if err := x.Grant.Body.Reach(r.Context(), bytes); err != nil {
				return err
			}
			return http.NewResponseController(w).SetReadDeadline(time.Now().Add(proxy.BodyTimeout))
		})
	}
	var body bytes.Buffer
	body.Grow(int(r.ContentLength) + bytes.MinRead) // so that nothing is copied as it grows
	_, err := body.ReadFrom(limited)
	return body.Bytes(), err
}

func (in *Intake) bodyTooLarge() error {
	return openai.TooLarge("", fmt.Sprintf("the body is larger than the limit of %d bytes (body_limit)", in.BodyLimit))
}

func checkContentType(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return unsupportedMedia(fmt.Sprintf("send the body as it is, without Content-Encoding: %s",
			openai.Bounded(coding)))
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && kind == "application/json" {
		return nil
	}
	return unsupportedMedia("send the body as Content-Type: application/json")
}

func unsupportedMedia(message string) error {
	return &openai.Error{
		Status: http.StatusUnsupportedMediaType, Type: openai.TypeInvalidRequest, Code: "unsupported_media_type",
		Message: message,
	}
}
