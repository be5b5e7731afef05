package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"codex-proxy/runner/api/wire"
)

// CreateSession makes a session and queues its commands.
func (c *Client) CreateSession(ctx context.Context, s wire.NewSession) (wire.Session, error) {
	s.DryRun = false
	return call[wire.Session](ctx, c, http.MethodPost, "/sessions", s)
}

// Plan returns how the commands of a session would run, and starts nothing.
func (c *Client) Plan(ctx context.Context, s wire.NewSession) (wire.Plan, error) {
	s.DryRun = true
	return call[wire.Plan](ctx, c, http.MethodPost, "/sessions", s)
}

// Filter selects sessions. The zero value selects the newest 100 of the caller.
type Filter struct {
	State wire.SessionState // "" for any
	All   bool              // of all users, for administrators
	Limit int               // how many at most; 0 is 100
}

// maxPage is the largest number of sessions that an answer has.
const maxPage = 1000

// Sessions returns sessions, the newest first, each with its last command.
func (c *Client) Sessions(ctx context.Context, f Filter) ([]wire.Session, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	all := []wire.Session{} // JSON has a list, never null
	for before := ""; ; {
		q := url.Values{"limit": {strconv.Itoa(min(f.Limit-len(all), maxPage))}}
		if f.State != "" {
			q.Set("state", string(f.State))
		}
		if f.All {
			q.Set("all", "true")
		}
		if before != "" {
			q.Set("before", before)
		}
		page, err := call[wire.Sessions](ctx, c, http.MethodGet, "/sessions?"+q.Encode(), nil)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Sessions...)
		if before = page.Next; before == "" || len(all) >= f.Limit {
			return all, nil
		}
	}
}

// Session returns a session with all its commands.
func (c *Client) Session(ctx context.Context, id string) (wire.Session, error) {
	return call[wire.Session](ctx, c, http.MethodGet, sessionPath(id), nil)
}

// AddCommand queues the next command of a session.
func (c *Client) AddCommand(ctx context.Context, id string, n wire.NewCommand) (wire.Command, error) {
	return call[wire.Command](ctx, c, http.MethodPost, sessionPath(id)+"/commands", n)
}

// PutStdin sends the whole standard input of the nth command of a session, which is queued then.
func (c *Client) PutStdin(ctx context.Context, id string, n int, stdin io.Reader) (wire.Command, error) {
	return send[wire.Command](ctx, c, http.MethodPut, commandPath(id, n)+"/stdin", "application/octet-stream", stdin)
}

// Cancel ends the nth command of a session; all of them, and the session, if n is 0. It returns before they have ended.
func (c *Client) Cancel(ctx context.Context, id string, n int) (wire.Session, error) {
	return call[wire.Session](ctx, c, http.MethodPost, sessionPath(id)+"/cancel", wire.Cancel{Command: n})
}

// Release ends the hold of a command that did not succeed.
func (c *Client) Release(ctx context.Context, id string) (wire.Session, error) {
	return call[wire.Session](ctx, c, http.MethodPost, sessionPath(id)+"/release", nil)
}

func sessionPath(id string) string { return "/sessions/" + url.PathEscape(id) }

func commandPath(id string, n int) string { return fmt.Sprintf("%s/commands/%d", sessionPath(id), n) }
