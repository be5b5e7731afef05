package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// crowdSize is the number of clients of a crowd.
	crowdSize = 32
	// crowdConfig has a slot for each of them: none waits for another.
	crowdConfig = "max_inflight = 48\n"
	shortest    = 100 * time.Millisecond
	// hung is longer than any request may take: two stops, each with a longest stream
	// before it, and a hung worker until its watchdog.
	hung = 2 * time.Minute
)

// crowd is clients of every kind at once: of chats and of messages, streamed and plain, each on a kept connection
// or on a new one every time. The ledger records the outcome of each request.
type crowd struct {
	*ledger
	bed     *bed
	stop    func()
	done    sync.WaitGroup
	longest atomic.Int64 // of the streams that begin from now on, nanoseconds
}

// crowd begins; it ends with the test at the latest.
func (b *bed) crowd(seed uint64, longest time.Duration) *crowd {
	ctx, stop := context.WithCancel(context.Background())
	c := &crowd{ledger: newLedger(), bed: b, stop: stop}
	c.longest.Store(int64(longest))
	b.t.Cleanup(func() { stop(); c.done.Wait() })
	for i := range crowdSize {
		c.done.Go(func() { c.client(ctx, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	return c
}

// client sends requests until ctx ends, and reads each answer to its end.
func (c *crowd) client(ctx context.Context, i int, random *rand.Rand) {
	transport := &http.Transport{DialContext: c.bed.DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for n := 0; ctx.Err() == nil; n++ {
		e := &entry{id: fmt.Sprintf("q%02d-%04d", i, n), stream: i%2 == 0, anew: i%4 < 2,
			messages: i%8 >= 4}
		think := 500 + random.IntN(1000)
		e.lasts = time.Duration(random.IntN(500)) * time.Millisecond
		if e.stream {
			think = 100 + random.IntN(200)
			e.lasts = logUniform(random, shortest, time.Duration(c.longest.Load()))
		}
		c.begin(e)
		e.ask(client)
		c.end(e)
		pause(ctx, time.Duration(think)*time.Millisecond+min(e.retryAfter, time.Second))
	}
}

// logUniform draws as many from 0.1 to 1 s as from 1 to 10 s.
func logUniform(random *rand.Rand, least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), random.Float64()))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// leave stops the clients and waits for their answers.
func (c *crowd) leave(t *testing.T) {
	t.Helper()
	c.stop()
	gone := make(chan struct{})
	go func() { c.done.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(hung + bound):
		require.Fail(t, "clients hang", "%v", c.open())
	}
}

// ask sends the request and reads the answer.
func (e *entry) ask(client *http.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	req := e.request(ctx)
	req.Close = e.anew
	res, err := client.Do(req)
	if err != nil {
		e.fail(err)
		return
	}
	defer res.Body.Close()
	e.status = res.StatusCode
	e.attempts, _ = strconv.Atoi(res.Header.Get("X-Codex-Attempts"))
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	e.retryAfter = time.Duration(seconds) * time.Second
	if err := e.read(res); err != nil {
		e.fail(err)
	}
}

// fail records the end of the connection.
func (e *entry) fail(err error) {
	e.err = err
	var op *net.OpError
	e.refused = errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial"
}
