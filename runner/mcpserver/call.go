package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// call is one call of a tool. Its methods may be called by several goroutines.
type call struct {
	request *mcp.CallToolRequest
	beat    time.Duration
	began   time.Time

	mu   sync.Mutex
	what string // the command that the call waits for
	last string // the last line of its output
}

// progress notifies the agent's program at every beat that the command goes on, if it asked for that. It returns at the
// end of ctx.
func (c *call) progress(ctx context.Context) {
	token := c.request.Params.GetProgressToken()
	if token == nil {
		return
	}
	beat := time.NewTicker(c.beat)
	defer beat.Stop()
	for {
		passed := time.Since(c.began)
		// The end of the connection ends the call, too.
		_ = c.request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: passed.Seconds(), Message: c.message(passed),
		})
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *call) message(passed time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf("%s for %v", c.what, passed.Round(time.Second))
	if c.last != "" {
		text += ": " + c.last
	}
	return text
}

// about notes the command that the call waits for.
func (c *call) about(session string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.what = fmt.Sprintf("session %s, command %d", session, n)
}

// wrote notes the last line of the output.
func (c *call) wrote(data []byte) {
	lines := strings.Split(strings.TrimRight(string(data[max(0, len(data)-lineBound):]), "\r\n"), "\n")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = printable(lines[len(lines)-1])
}

// lineBound is how much of a line a message has, in bytes.
const lineBound = 200

// printable is the text as valid UTF-8 without control characters, which a terminal would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
}
