package deliver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"codex-proxy/internal/ondemand"
)

// startTime is how long systemd may take to start codex-proxy-fetch.service.
const startTime = 5 * time.Second

// Client has the deliverer behind a socket send messages. Its methods are safe for concurrent use.
type Client struct{ http http.Client }

// NewClient returns a client of the deliverer at socket.
func NewClient(socket string) *Client {
	return &Client{http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // the other process ends when it has no connection
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Deliver sends one message. Its errors are of type *Error.
func (c *Client) Deliver(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, Bound+margin+startTime)
	defer cancel()
	body, err := json.Marshal(m)
	if err != nil {
		return &Error{Refused, err.Error()}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://fetcher/push", bytes.NewReader(body))
	if err != nil {
		return &Error{Refused, err.Error()}
	}
	res, err := c.http.Do(r)
	if err != nil {
		return &Error{Unavailable, "codex-proxy-fetch.service does not answer; " +
			"systemctl status codex-proxy-fetch.socket has the reason"}
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	if reason := res.Header.Get(ondemand.ReasonHeader); reason != "" {
		return &Error{Unavailable, "codex-proxy-fetch.service refuses: " + reason}
	}
	e := &Error{}
	if json.NewDecoder(io.LimitReader(res.Body, maxHeader)).Decode(e) != nil || e.Code == "" {
		return &Error{Unavailable, "codex-proxy-fetch.service answers " + res.Status}
	}
	return e
}
