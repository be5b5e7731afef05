package links

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy/openai"
	"codex-proxy/remotes/authz"
)

const (
	// startBound bounds the time from the request of a client to the answer of its remote, which may start only now:
	// TimeoutStartSec= of its unit, and some more.
	startBound = 75 * time.Second
	// lookPause is the time between two looks at the unit of a remote that has not answered.
	lookPause = time.Second
)

// connect opens the WebSocket at the remote, which a connection starts. head is the answer for the client, and rest
// the bytes after it.
func (l *Links) connect(r *http.Request, k *link) (remote *net.UnixConn, head, rest []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), startBound, silent(k.Remote))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	looked := make(chan struct{})
	looking, enough := context.WithCancel(ctx)
	defer func() { enough(); <-looked }()
	remote, err = l.dial(ctx, k.Remote)
	if err != nil {
		close(looked)
		return nil, nil, nil, err
	}
	go func() { defer close(looked); l.look(looking, k.Remote, fail) }()
	head, rest, err = upgrade(ctx, remote, r.Header, k)
	if err == nil {
		return remote, head, rest, nil
	}
	_ = remote.Close()
	var away *turnedAway
	switch known := new(openai.Error); {
	case errors.As(err, &away):
		err = l.down(ctx, k.Remote, away.words)
	case !errors.As(err, &known) && ctx.Err() == nil: // it has closed
		err = l.down(ctx, k.Remote, "it has closed the connection")
	}
	return nil, nil, nil, cause.Of(ctx, err)
}

func silent(remote string) error {
	return openai.Unavailable("remote_unavailable", fmt.Sprintf("the remote %s did not answer within %v; "+
		"the operator sees why: systemctl status codex-remote@%s", remote, startBound, remote), 5*time.Second)
}

func (l *Links) dial(ctx context.Context, remote string) (*net.UnixConn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", l.Socket(remote))
	switch {
	case err == nil:
		return c.(*net.UnixConn), nil
	case ctx.Err() != nil:
		return nil, err
	case l.State(ctx, remote).Name == Unknown: // systemd leaves the file of a socket
		return nil, notFound("there is no remote " + printable(remote) +
			" any more; the operator sees which there are: " +
			"codex-proxy remotes list")
	}
	return nil, l.down(ctx, remote, "its sockets are closed; the operator opens them: systemctl start codex-remote@"+
		remote+".socket")
}

// look fails the context once systemd has no hope for the remote.
func (l *Links) look(ctx context.Context, remote string, fail context.CancelCauseFunc) {
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if l.State(ctx, remote).Down {
				fail(l.down(ctx, remote, "it does not start"))
				return
			}
		}
	}
}

// down is the error for a remote that cannot be reached, with the words of its unit, or others if that has none.
func (l *Links) down(ctx context.Context, remote, words string) error {
	state := l.State(ctx, remote)
	if state.Down && state.Status != "" {
		words = state.Status
	}
	return openai.Unavailable("remote_unavailable", fmt.Sprintf("the remote %s cannot be reached (its unit is %s): %s",
		remote, state.Name, words), 5*time.Second)
}

// upgrade sends the request for a WebSocket with the name of the key, and returns the answer.
func upgrade(ctx context.Context, remote *net.UnixConn, header http.Header, k *link) (head, rest []byte, err error) {
	defer context.AfterFunc(ctx, func() { _ = remote.Close() })()
	if _, err := remote.Write(request(header, k)); err != nil {
		return nil, nil, err
	}
	in := bufio.NewReader(remote)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusSwitchingProtocols:
	case http.StatusServiceUnavailable:
		return nil, nil, away(res.Body)
	default:
		return nil, nil, &openai.Error{
			Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Code: "bad_upgrade",
			Message: "this is no request for a WebSocket by RFC 6455 that the remote takes: it has answered " +
				res.Status,
		}
	}
	var answer bytes.Buffer
	answer.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = res.Header.Write(&answer) // a buffer has no errors
	answer.WriteString("\r\n")
	rest, _ = in.Peek(in.Buffered())
	return answer.Bytes(), rest, nil
}

// turnedAway is the answer of a remote that does not start, or that has no place.
type turnedAway struct{ words string }

func (t *turnedAway) Error() string { return t.words }

// away reads the reason: {"error": …}, or a text.
func away(body io.Reader) error {
	const longest = 4 << 10
	text, _ := io.ReadAll(io.LimitReader(body, longest))
	var reason struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &reason) != nil {
		reason.Error = string(text)
	}
	return &turnedAway{strings.TrimSpace(reason.Error)}
}

// request is the head of the request to the proxy of the remote: it has the fields of the client's request for the
// WebSocket, and not its key.
func request(header http.Header, k *link) []byte {
	var b bytes.Buffer
	b.WriteString("GET /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")
	for name, values := range header {
		if strings.HasPrefix(name, "Sec-Websocket-") || strings.HasPrefix(name, "X-Codex-") || name == "User-Agent" {
			for _, v := range values {
				b.WriteString(name + ": " + v + "\r\n")
			}
		}
	}
	b.WriteString(authz.NetworkHead(k.Key, k.role()) + "\r\n")
	return b.Bytes()
}
