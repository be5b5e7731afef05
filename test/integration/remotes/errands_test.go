package remotes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// errandClients is the number of clients that have responses in the background.
const errandClients = 9

// errand is a response in the background and what its client received of it. Its client alone writes it until it has left.
type errand struct {
	bed.Entry        // whose id, time and prompt it has; stream: its events, and not polls
	cancels   bool   // the client cancels it at some time
	response  string // its id; "": its client never learned it
	refusal   string // of the request for it
	events    []bed.WireEvent
	cuts      int      // of its stream
	statuses  []string // that polls had, each once
	cancelled bool     // a cancel was answered with success
	strange   []string // answers that no client should receive
}

func (j *errand) String() string {
	return fmt.Sprintf("%s %s stream=%t lasts=%s began=%s ended=%s status=%d refusal=%q cancels=%t cancelled=%t "+
		"statuses=%v cuts=%d err=%v\n%s", j.ID, j.response, j.Stream, j.Lasts.Round(time.Millisecond),
		j.Began.Format("05.000"), j.Ended.Format("05.000"), j.Status, j.refusal, j.cancels, j.cancelled, j.statuses, j.cuts,
		j.Err, bed.Raw(j.events))
}

// errands are clients of every kind: those that follow a stream, which they cut at any place and resume, those that poll,
// and those that cancel.
type errands struct {
	bed  *bed.Bed
	stop func()
	done sync.WaitGroup

	mu  sync.Mutex
	all []*errand // those that have ended
}

// startErrands begin; they end with the test at the latest.
func startErrands(b *bed.Bed, seed uint64) *errands {
	ctx, stop := context.WithCancel(context.Background())
	all := &errands{bed: b, stop: stop}
	b.T.Cleanup(func() { stop(); all.done.Wait() })
	for i := range errandClients {
		all.done.Go(func() { all.client(ctx, i, rand.New(rand.NewPCG(seed, uint64(1000+i)))) })
	}
	return all
}

func (all *errands) client(ctx context.Context, i int, random *rand.Rand) {
	client := all.bed.HTTPClient()
	for n := 0; ctx.Err() == nil; n++ {
		j := &errand{Entry: bed.Entry{ID: fmt.Sprintf("qj%02d-%04d", i, n), Stream: i%3 != 0, Anew: true,
			Lasts: bed.LogUniform(random, bed.Shortest, 20*time.Second), Began: time.Now()}, cancels: i%3 == 2 || i%6 == 0}
		j.run(client, random)
		j.Ended = time.Now()
		all.mu.Lock()
		all.all = append(all.all, j)
		all.mu.Unlock()
		bed.Pause(ctx, time.Duration(200+random.IntN(500))*time.Millisecond)
	}
}

// leave stops the clients and waits for the ends of their responses.
func (all *errands) leave(t *testing.T) {
	t.Helper()
	all.stop()
	gone := make(chan struct{})
	go func() { all.done.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(bed.Hung + bed.Bound):
		require.Fail(t, "clients of responses in the background hang")
	}
}

// run begins a response, and stays with it to its end.
func (j *errand) run(client *http.Client, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), bed.Hung)
	defer cancel()
	j.begin(ctx, client, bed.InBackground(j.Stream, j.script().Prompt()), j.span(random))
	if j.response == "" {
		return
	}
	canceller := time.Now().Add(time.Duration(random.Int64N(int64(j.Lasts))))
	for !j.over() && ctx.Err() == nil {
		switch {
		case j.cancels && !j.cancelled && time.Now().After(canceller):
			j.cancel(ctx, client)
		case j.Stream:
			j.cuts++
			j.follow(ctx, client, j.span(random))
		default:
			j.poll(ctx, client)
		}
		bed.Pause(ctx, time.Duration(20+random.IntN(200))*time.Millisecond)
	}
	for !j.told() && ctx.Err() == nil { // also while the service restarts
		j.poll(ctx, client)
		bed.Pause(ctx, time.Duration(20+random.IntN(200))*time.Millisecond)
	}
}

// script is the entry of a stream with the same answer: one that is polled comes in pieces, too.
func (j *errand) script() *bed.Entry { return &bed.Entry{ID: j.ID, Stream: true, Lasts: j.Lasts} }

// span is how long a client reads a stream before it cuts it.
func (j *errand) span(random *rand.Rand) time.Duration {
	return time.Duration(random.Int64N(int64(j.Lasts))) + time.Duration(random.IntN(200))*time.Millisecond
}

// over reports whether the client has seen the end.
func (j *errand) over() bool {
	if n := len(j.events); n > 0 && j.events[n-1].Ends() {
		return true
	}
	return j.told()
}

// told reports whether a poll has had the last status.
func (j *errand) told() bool {
	n := len(j.statuses)
	return n > 0 && j.statuses[n-1] != "queued" && j.statuses[n-1] != "in_progress"
}

// begin sends the request, and reads its answer for a while.
func (j *errand) begin(ctx context.Context, client *http.Client, body string, span time.Duration) {
	res, err := j.send(ctx, client, http.MethodPost, "", body)
	if err != nil {
		j.Fail(err)
		return
	}
	defer res.Body.Close()
	if j.Status = res.StatusCode; j.Status != http.StatusOK {
		answer, _ := io.ReadAll(res.Body)
		j.refusal = string(answer)
		return
	}
	if j.Stream {
		defer time.AfterFunc(span, func() { _ = res.Body.Close() }).Stop()
		j.read(res.Body)
		if len(j.events) > 0 {
			j.response = j.events[0].Answer.ID
		}
		return
	}
	var made bed.Polled
	if j.Err = json.NewDecoder(res.Body).Decode(&made); j.Err == nil {
		j.response = made.ID
		j.saw(made.Status)
	}
}

// read adds the events of a stream, which may be cut amid one of them.
func (j *errand) read(from io.Reader) {
	events, _ := bed.ReadEvents(from, bed.WireEvent.Ends)
	j.events = append(j.events, events...)
}

// follow resumes the stream for a while.
func (j *errand) follow(ctx context.Context, client *http.Client, span time.Duration) {
	path := fmt.Sprintf("/%s?stream=true&starting_after=%d", j.response, j.events[len(j.events)-1].Number)
	res, err := j.send(ctx, client, http.MethodGet, path, "")
	if err != nil {
		return // no process, or one that was killed
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		j.wonder("follow", res)
		return
	}
	defer time.AfterFunc(span, func() { _ = res.Body.Close() }).Stop()
	j.read(res.Body)
}

// poll has the status of the response.
func (j *errand) poll(ctx context.Context, client *http.Client) {
	j.take(ctx, client, http.MethodGet, "/"+j.response)
}

// cancel cancels the response.
func (j *errand) cancel(ctx context.Context, client *http.Client) {
	j.cancelled = j.take(ctx, client, http.MethodPost, "/"+j.response+"/cancel") || j.cancelled
}

// take has the response of an answer, and reports whether it was one.
func (j *errand) take(ctx context.Context, client *http.Client, method, path string) bool {
	res, err := j.send(ctx, client, method, path, "")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		j.wonder(method+" "+path, res)
		return false
	}
	var p bed.Polled
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		return false // killed
	}
	j.saw(p.Status)
	return true
}

// saw adds a status that has changed.
func (j *errand) saw(status string) {
	if n := len(j.statuses); n == 0 || j.statuses[n-1] != status {
		j.statuses = append(j.statuses, status)
	}
}

// wonder keeps an answer that is neither a success nor a refusal which permits a retry. A response that ended before
// its cancellation refuses that.
func (j *errand) wonder(what string, res *http.Response) {
	answer, _ := io.ReadAll(res.Body)
	var e struct{ Error struct{ Code string } }
	_ = json.Unmarshal(answer, &e)
	switch {
	case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "":
	case e.Error.Code == "response_not_cancellable" && j.cancels:
		j.cancels = false
	default:
		j.strange = append(j.strange, fmt.Sprintf("%s: %s %s", what, res.Status, answer))
	}
}

func (j *errand) send(ctx context.Context, client *http.Client, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, bed.Base+"/v1/responses"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// forward reports whether the statuses that polls had only went on.
func (j *errand) forward() bool {
	order := []string{"queued", "in_progress"}
	at := 0
	for i, status := range j.statuses {
		is := slices.Index(order, status)
		if is < 0 {
			return i == len(j.statuses)-1
		}
		if is < at {
			return false
		}
		at = is
	}
	return true
}
