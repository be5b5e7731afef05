package conversation

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

// A request that OpenAI takes by HTTP alone goes by HTTP, and no WebSocket is made for its conversation.
func TestTooLong(t *testing.T) {
	inPipe(t, func(p *piped) { p.longest = longestRequest + 1 }, func(p *piped) {
		for range 3 {
			assert.Equal(t, "by HTTP", p.ask("k"))
		}
		assert.Zero(t, p.tries.Load())
	})
}

// An endpoint that closes a WebSocket for the size of a message has not served the request, however long it takes.
func TestClosedAsTooLong(t *testing.T) {
	inPipe(t, func(p *piped) {
		p.answer = func(conn *websocket.Conn) bool {
			after(closing + time.Second)
			_ = conn.Close(websocket.StatusMessageTooBig, "")
			return false
		}
	}, func(p *piped) {
		for range 4 {
			assert.Equal(t, "by HTTP", p.ask("k"))
		}
		assert.Greater(t, p.resting(), shortRest, "its WebSockets are of no use")
		assert.Nil(t, p.Line().Failure)
	})
}

// An old WebSocket takes no request: the endpoint would end it in the middle of the answer.
func TestAge(t *testing.T) {
	inPipe(t, nothing, func(p *piped) {
		assert.Equal(t, "by HTTP", p.ask("k"))
		assert.Contains(t, p.ask("k"), "response.completed")
		after(oldest - time.Minute)
		assert.Contains(t, p.ask("k"), "response.completed")
		after(time.Minute)
		p.refuse = http.StatusServiceUnavailable
		assert.Equal(t, "by HTTP", p.ask("k"))
		assert.Zero(t, p.open(), "the old one has ended")
		p.refuse = 0
		after(shortRest)
		assert.Equal(t, "by HTTP", p.ask("k"))
		assert.Contains(t, p.ask("k"), "response.completed")
		assert.EqualValues(t, 3, p.tries.Load())
	})
}

// A connection that dies behind a proxy is noticed by a ping: a request over it fails, and one at rest is dropped.
func TestDark(t *testing.T) {
	inPipe(t, nothing, func(p *piped) {
		p.ask("k")
		p.ask("other")
		assert.Contains(t, p.ask("k"), "response.completed")
		assert.Equal(t, 2, p.open())
		p.dark.Store(true)
		began := time.Now()
		_, err := p.try("k")
		require.ErrorIs(t, err, errSilent)
		assert.LessOrEqual(t, time.Since(began), pingEvery+pingBound)
		after(pingEvery + pingBound)
		assert.Zero(t, p.open())
		p.dark.Store(false)
		assert.Equal(t, "by HTTP", p.ask("k"))
	})
}

// A slow codex is no silent endpoint, and neither is one that computes for long.
func TestSlow(t *testing.T) {
	const events = 20
	inPipe(t, func(p *piped) {
		p.answer = func(conn *websocket.Conn) bool {
			after(10 * time.Minute)
			for n := range events {
				sends(conn, fmt.Sprintf(`{"type":"response.output_text.delta","delta":"%d"}`, n))
			}
			return sends(conn, completed)
		}
	}, func(p *piped) {
		p.ask("k")
		res, err := p.try("k")
		require.NoError(t, err)
		after(10 * time.Minute)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, events+1, strings.Count(string(text), "event: "))
		assert.Equal(t, 1, p.open())
	})
}

// A request goes out again only if the endpoint has closed the connection before any event.
func TestNotTwice(t *testing.T) {
	inPipe(t, func(p *piped) {
		p.answer = func(conn *websocket.Conn) bool { sends(conn, quota); return false }
	}, func(p *piped) {
		p.ask("k")
		_, err := p.try("k")
		require.ErrorIs(t, err, io.EOF)
		assert.EqualValues(t, 1, p.posts.Load())
		assert.Equal(t, "cut", p.Line().Failure.Reason)
	})
	for _, err := range []error{io.EOF, errIdle, websocket.CloseError{Code: websocket.StatusGoingAway}} {
		assert.True(t, closed(fmt.Errorf("failed to read: %w", err)), "%v", err)
	}
	for _, err := range []error{syscall.ECONNRESET, io.ErrUnexpectedEOF, errBinary, errLong, errSilent} {
		assert.False(t, closed(fmt.Errorf("failed to read: %w", err)), "%v", err)
	}
}

// An answer that is cut is no failure to reach the endpoint, and codex does not take it for a whole one.
func TestCut(t *testing.T) {
	inPipe(t, func(p *piped) {
		p.answer = func(conn *websocket.Conn) bool { sends(conn, created); return false }
	}, func(p *piped) {
		p.ask("k")
		res, err := p.try("k")
		require.NoError(t, err)
		_, err = io.ReadAll(res.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotErrorIs(t, err, io.EOF)
		require.NoError(t, res.Body.Close())
		assert.Nil(t, p.Line().Failure)
	})
}

// The large messages of all answers that codex does not read take bounded memory, and arrive whole and in order.
func TestRoom(t *testing.T) {
	const answers, messages, size, held = 4, 5, 1 << 20, 4
	var sent atomic.Int32
	var texts [][]byte
	for n := range messages {
		text := strings.Repeat("x", size)
		texts = append(texts, fmt.Appendf(nil, `{"type":"response.image","n":%d,"x":"%s"}`, n, text))
	}
	const room = longestMessage + held*size
	inPipe(t, func(p *piped) {
		p.messages = semaphore.NewWeighted(room)
		p.answer = func(conn *websocket.Conn) bool {
			sends(conn, created)
			for _, text := range texts {
				_ = conn.Write(context.Background(), websocket.MessageText, text)
				sent.Add(1)
			}
			return sends(conn, completed)
		}
	}, func(p *piped) {
		var bodies []io.ReadCloser
		for n := range answers {
			p.ask(fmt.Sprint(n))
			res, err := p.try(fmt.Sprint(n))
			require.NoError(t, err)
			bodies = append(bodies, res.Body)
		}
		synctest.Wait()
		assert.EqualValues(t, held, sent.Load(), "the rest waits at the endpoint")
		var readers sync.WaitGroup
		for _, body := range bodies {
			readers.Go(func() {
				lines := bufio.NewReader(body)
				next := 0
				for {
					line, err := lines.ReadString('\n')
					if strings.HasPrefix(line, fmt.Sprintf(`data: {"type":"response.image","n":%d,`, next)) {
						assert.Greater(t, len(line), size)
						next++
					}
					if err != nil {
						assert.ErrorIs(t, err, io.EOF)
						break
					}
				}
				assert.Equal(t, messages, next)
				assert.NoError(t, body.Close())
			})
		}
		readers.Wait()
		assert.True(t, p.messages.TryAcquire(room), "all room is free again")
	})
}

// The room of messages that codex does not read is free after the end of their answer.
func TestRoomOfACutAnswer(t *testing.T) {
	big := `{"type":"response.image","x":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, last := range []string{"", completed} {
		inPipe(t, func(p *piped) {
			p.answer = func(conn *websocket.Conn) bool { return sends(conn, created, big, big, big, last) && last != "" }
		}, func(p *piped) {
			p.ask("k")
			res, err := p.try("k")
			require.NoError(t, err)
			synctest.Wait()
			assert.False(t, p.messages.TryAcquire(mostRoom))
			require.NoError(t, res.Body.Close())
			synctest.Wait()
			assert.True(t, p.messages.TryAcquire(mostRoom))
		})
	}
}
