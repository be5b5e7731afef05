package bed

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

	"codex-proxy/test/nightly"
)

const (
	// CrowdSize is the number of clients of a crowd.
	CrowdSize = 32
	// CrowdConfig has a slot for each of them: none waits for another.
	CrowdConfig = "max_inflight = 48\n"
	// Shortest is the least time of an answer.
	Shortest = 100 * time.Millisecond
	// Hung is longer than any request may take: two stops, each with a longest stream
	// before it, and a hung worker until its watchdog.
	Hung = 2 * time.Minute
)

// Crowd is clients of every kind at once: of chats and of messages, streamed and plain, each on a kept connection
// or on a new one every time. The ledger records the outcome of each request.
type Crowd struct {
	*Ledger
	bed     *Bed
	stop    func()
	done    sync.WaitGroup
	Longest atomic.Int64 // of the streams that begin from now on, nanoseconds
}

// StartCrowd begins; it ends with the test at the latest.
func StartCrowd(b *Bed, seed uint64, longest time.Duration) *Crowd {
	ctx, stop := context.WithCancel(context.Background())
	c := &Crowd{Ledger: NewLedger(), bed: b, stop: stop}
	c.Longest.Store(int64(longest))
	b.T.Cleanup(func() { stop(); c.done.Wait() })
	for i := range CrowdSize {
		c.done.Go(func() { c.client(ctx, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	return c
}

// client sends requests until ctx ends, and reads each answer to its end. By day it thinks longer: what its requests take
// is what the whole machine computes.
func (c *Crowd) client(ctx context.Context, i int, random *rand.Rand) {
	transport := &http.Transport{DialContext: c.bed.DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for n := 0; ctx.Err() == nil; n++ {
		e := &Entry{ID: fmt.Sprintf("q%02d-%04d", i, n), Stream: i%2 == 0, Anew: i%4 < 2,
			Messages: i%8 >= 4}
		think := nightly.Or(1, 2) * (500 + random.IntN(1000))
		e.Lasts = time.Duration(random.IntN(500)) * time.Millisecond
		if e.Stream {
			think = nightly.Or(1, 5) * (100 + random.IntN(200))
			e.Lasts = LogUniform(random, Shortest, time.Duration(c.Longest.Load()))
		}
		c.Begin(e)
		e.Ask(client)
		c.End(e)
		Pause(ctx, time.Duration(think)*time.Millisecond+min(e.retryAfter, time.Second))
	}
}

// LogUniform draws as many from 0.1 to 1 s as from 1 to 10 s.
func LogUniform(random *rand.Rand, least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), random.Float64()))
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Leave stops the clients and waits for their answers.
func (c *Crowd) Leave(t *testing.T) {
	t.Helper()
	c.stop()
	gone := make(chan struct{})
	go func() { c.done.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(Hung + Bound):
		require.Fail(t, "clients hang", "%v", c.Open())
	}
}

// Ask sends the request and reads the answer.
func (e *Entry) Ask(client *http.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), Hung)
	defer cancel()
	req := e.request(ctx)
	req.Close = e.Anew
	res, err := client.Do(req)
	if err != nil {
		e.Fail(err)
		return
	}
	defer res.Body.Close()
	e.Status = res.StatusCode
	e.Attempts, _ = strconv.Atoi(res.Header.Get("X-Codex-Attempts"))
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	e.retryAfter = time.Duration(seconds) * time.Second
	if err := e.read(res); err != nil {
		e.Fail(err)
	}
}

// Fail records the end of the connection.
func (e *Entry) Fail(err error) {
	e.Err = err
	var op *net.OpError
	e.Refused = errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial"
}
