package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"codex-proxy/internal/ondemand"
)

// Path is the path of OTLP/HTTP, which is also the protocol of the socket.
const Path = "/v1/traces"

const (
	// MaxMessage bounds a message, in bytes: a batch of the largest spans is smaller.
	MaxMessage = 4 << 20
	// CollectorTime bounds one message on its way from the sender to the collector and back.
	CollectorTime = 10 * time.Second
)

const (
	contentType = "application/x-protobuf"
	// sendTime bounds one try, including the start of the sender's unit.
	sendTime  = CollectorTime + 5*time.Second
	maxAnswer = 64 << 10 // bytes
)

// passingError is an error that another try can mend.
type passingError struct{ error }

func passing(err error) bool {
	var p passingError
	return errors.As(err, &p)
}

// socket hands batches to the sender.
type socket struct{ http http.Client }

func newSocket(path string) *socket {
	return &socket{http.Client{Timeout: sendTime, Transport: &http.Transport{
		DisableKeepAlives: true, // the sender ends when it has no connection
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}}
}

// send delivers an ExportTraceServiceRequest and returns the number of spans that the collector rejected.
func (s *socket) send(ctx context.Context, batch []byte) (rejected int64, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://traces"+Path, bytes.NewReader(batch))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", contentType)
	res, err := s.http.Do(r)
	if err != nil {
		return 0, passingError{err}
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return 0, passingError{err}
	case res.StatusCode/100 == 2:
		return rejectedSpans(answer), nil
	}
	err = fmt.Errorf("the collector answers %s", res.Status)
	if reason := res.Header.Get(ondemand.ReasonHeader); reason != "" {
		err = errors.New(reason)
	}
	switch res.StatusCode { // OTLP specification 1.10, "Retryable Response Codes"
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0, passingError{err}
	}
	return 0, err
}

// rejectedSpans reads ExportTraceServiceResponse.partial_success.rejected_spans.
func rejectedSpans(answer []byte) (n int64) {
	partial := field(answer, protowire.BytesType)
	message, _ := protowire.ConsumeBytes(partial)
	count, length := protowire.ConsumeVarint(field(message, protowire.VarintType))
	if length < 0 {
		return 0
	}
	return int64(count)
}

// field returns the rest of message from the value of the first field 1 of that type.
func field(message []byte, want protowire.Type) []byte {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		if message = message[n:]; number == 1 && kind == want {
			return message
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
