package remoteapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"codex-proxy/remotes"
)

// AskStatus asks the manager behind a remote's socket for its status.
func AskStatus(ctx context.Context, socket string) (st remotes.Status, err error) {
	return st, call(ctx, socket, nil, http.MethodGet, statusPath, nil, &st)
}

// SendTo sends a message to a thread of a remote, like remotes.Manager.Send. If the remote ends before its answer, it
// is asked again, which starts it, until ctx ends.
func SendTo(ctx context.Context, socket, thread, text string) (threadID string, err error) {
	return SendAs(ctx, socket, nil, thread, text)
}

// SendAs is SendTo, and the header goes with the request.
func SendAs(ctx context.Context, socket string, header http.Header, thread, text string) (threadID string, err error) {
	msg := remotes.Message{Thread: thread, Text: text, ID: rand.Text()}
	for {
		threadID, err = act(ctx, socket, header, SendPath, msg)
		if !unsure(err) {
			return threadID, err
		}
		msg.Again = true
		select {
		case <-time.After(sendAgain):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return threadID, fmt.Errorf("%w; the message may go out with the next start of the remote", err)
		}
	}
}

// sendAgain is the pause before a message goes out again.
const sendAgain = 200 * time.Millisecond

// unsure reports whether the remote has gone before its answer, and may have carried out the request.
func unsure(err error) bool {
	return errors.Is(err, remotes.ErrUnsure) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// ProceedTo continues a cut turn of a remote, like remotes.Manager.Proceed.
func ProceedTo(ctx context.Context, socket, thread string) (threadID string, err error) {
	return act(ctx, socket, nil, continuePath, remotes.Message{Thread: thread})
}

// Renew has a remote without turns start again, like remotes.Manager.Renew.
func Renew(ctx context.Context, socket string) error {
	_, err := act(ctx, socket, nil, RenewPath, remotes.Message{})
	return err
}

// FindThread returns the id of the thread of a remote with that name, like remotes.Manager.Find.
func FindThread(ctx context.Context, socket, name string) (id string, err error) {
	var r threadReply
	err = call(ctx, socket, nil, http.MethodGet, threadPath+"?name="+url.QueryEscape(name), nil, &r)
	return r.Thread, err
}

// Changes has the hands of a remote print the changes of their workspace.
func Changes(ctx context.Context, socket string, begin bool) (stdout, stderr []byte, err error) {
	var r changesReply
	err = call(ctx, socket, nil, http.MethodPost, fmt.Sprintf("%s?begin=%t", changesPath, begin), nil, &r)
	return r.Stdout, r.Stderr, err
}

func act(ctx context.Context, socket string, header http.Header, path string, msg remotes.Message) (string, error) {
	b, err := json.Marshal(msg)
	if err != nil {
		return "", err
	}
	var r threadReply
	err = call(ctx, socket, header, http.MethodPost, path, b, &r)
	return r.Thread, err
}

// RefusedError is the answer of a manager that refuses a request.
type RefusedError struct{ reason string }

// Error implements error.
func (e *RefusedError) Error() string { return e.reason }

// call sends one request on a connection of its own.
func call(ctx context.Context, socket string, header http.Header, method, path string, body []byte, v any) error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	r, err := http.NewRequestWithContext(ctx, method, "http://remote"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(r.Header, header)
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return fmt.Errorf("cannot ask the remote at %s: %w", socket, bare(err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return fmt.Errorf("cannot read the remote's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		if resp.StatusCode == http.StatusBadGateway {
			return remotes.ErrUnsure
		}
		var r threadReply
		if json.Unmarshal(b, &r) == nil && r.Error != "" {
			return &RefusedError{r.Error}
		}
		return fmt.Errorf("the remote answers %s", resp.Status)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("cannot parse the remote's answer: %w", err)
	}
	return nil
}

// bare is an error of the network without the addresses, which add nothing to the path of the socket.
func bare(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if e := (*net.OpError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if e := (*os.SyscallError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return err
}
