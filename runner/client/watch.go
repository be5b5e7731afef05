package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"codex-proxy/runner/api/wire"
)

// Watch calls each with the state of the daemon of a client and the newest sessions, and with each change, until ctx
// ends or the daemon does.
func Watch(ctx context.Context, c *Client, f Filter, each func(wire.Watched) error) error {
	q := url.Values{"follow": {"true"}, "all": {strconv.FormatBool(f.All)}}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	res, err := c.do(ctx, http.MethodGet, "/watch?"+q.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var w wire.Watched
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return fmt.Errorf("cannot read the changes of codex-runner: %w", err)
		}
		if err := each(w); err != nil {
			return err
		}
	}
	return c.explain(ctx, lines.Err())
}
