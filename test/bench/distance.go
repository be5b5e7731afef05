package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/test/bench/line"
)

// lines are the ways to an endpoint, from one on the same machine to one on another continent.
var lines = []struct {
	name string
	line.Options
}{
	{"0 ms", line.Options{}},
	{"40 ms", line.Options{RoundTrip: 40 * time.Millisecond}},
	{"40 ms, 20 Mbit/s up", line.Options{RoundTrip: 40 * time.Millisecond, Up: 20_000_000}},
	{"40 ms, closed after 1 s", line.Options{RoundTrip: 40 * time.Millisecond, Idle: time.Second}},
	{"150 ms", line.Options{RoundTrip: 150 * time.Millisecond}},
}

const (
	// modelOfLine is a model that all codexes know.
	modelOfLine = "gpt-5.4"
	// betweenAsks is the time between two requests, in which a thread may be prepared for the next one.
	betweenAsks = 400 * time.Millisecond
	// largePrompt is the size of a long conversation, in bytes.
	largePrompt = 400_000
	atOnce      = 16
)

// distance measures what a user waits for the first text of the real codex whose endpoint is far away, beyond a client
// of that endpoint that has a connection.
func (b *bench) distance(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running errgroup.Group
	defer func() { cancel(); _ = running.Wait() }() // the error is the end of ctx
	authority, err := line.NewAuthority(filepath.Join(b.dir, "authority.pem"))
	if err != nil {
		return err
	}
	login, err := b.startLogin(ctx)
	if err != nil {
		return err
	}
	hosts, err := b.newHosts()
	if err != nil {
		return err
	}
	endpoints := 0
	for _, l := range lines {
		for _, codex := range b.codexes() {
			var alone float64
			for _, kind := range []kind{ofOpenAI, apart, ofProvider} {
				endpoints++
				at := fmt.Sprintf("127.0.0.%d", endpoints+1)
				l.At = at + ":443"
				endpoint, err := line.Start(ctx, &running, authority, l.Options)
				if err == nil {
					err = hosts.lead(at, line.OpenAI)
				}
				if err != nil {
					return err
				}
				name := fmt.Sprintf("%s, %s, %s: ", l.name, codex.name, kind)
				if err := b.overLine(ctx, distant{name, codex.path, login, kind, endpoint, authority, l.Options, &alone}); err != nil {
					return fmt.Errorf("%s%w", name, err)
				}
			}
		}
	}
	return nil
}

// kind is the way of codex to the endpoint.
type kind string

// The kinds.
const (
	ofOpenAI   kind = "built-in"    // codex's own provider, and its own connections
	apart      kind = "login apart" // the same account, by the broker
	ofProvider kind = "provider"    // a [provider], by the broker
)

// distant is one codex on one line.
type distant struct {
	name, codex string
	login       string // the socket of its login
	kind        kind
	*line.Endpoint
	authority *line.Authority
	over      line.Options
	// alone is the time of one of many turns with codex's own provider in the same run.
	alone *float64
}

// must are the bounds of the first text by a broker, in milliseconds beyond a direct client, by the rows.
func (l distant) must(row string) float64 {
	const far = 150 * time.Millisecond
	switch {
	case l.kind == ofOpenAI || l.over.RoundTrip == 0 || l.over.Up > 0 || l.over.Idle > 0:
		return 0
	case l.over.RoundTrip == far && row != rowBurst:
		return 20
	}
	return map[string]float64{rowKnown: 12, rowOwn: 18, rowBurst: 80, rowContinued: 12}[row]
}

// The rows of the first text.
const (
	rowKnown     = "new, known start"
	rowOwn       = "new, own system prompt"
	rowBurst     = "new, 16 at once"
	rowContinued = "continued"
)

// worker are the files of a worker that asks the endpoint.
func (l distant) worker() map[string]string {
	text := fmt.Sprintf("mode = \"plain\"\ncodex_path = %q\nmodel = %q\n", l.codex, modelOfLine)
	switch l.kind {
	case apart:
		return map[string]string{"workers/w0.toml": text + "network = \"model\"\n"}
	case ofProvider:
		return map[string]string{"workers/w0.toml": text +
			fmt.Sprintf("network = \"model\"\n[provider]\nname = \"distant\"\nbase_url = \"https://%s/v1\"\nca_file = %q\n", l.Address, l.authority.File)}
	}
	return map[string]string{
		"workers/w0.toml": text + fmt.Sprintf("[codex]\nopenai_base_url = \"https://%[1]s/v1\"\nchatgpt_base_url = \"https://%[1]s/backend-api\"\n", l.Address),
		"auth.json":       `{"auth_mode":"apikey","OPENAI_API_KEY":"sk-test-0000000000000000"}`,
	}
}

// overLine adds the rows of one codex on one line.
func (b *bench) overLine(ctx context.Context, l distant) error {
	empty, err := os.MkdirTemp(b.dir, "none-")
	if err != nil {
		return err
	}
	variables := []string{"SSL_CERT_FILE=" + l.authority.File, "SSL_CERT_DIR=" + empty}
	var broker *broker // nil: codex has a network
	if l.kind != ofOpenAI {
		login := l.login
		if l.kind == ofProvider {
			login = ""
		}
		if broker, err = b.startBroker(ctx, l.worker()["workers/w0.toml"], l.authority.File, login); err != nil {
			return err
		}
		defer broker.end()
		defer broker.stop()
		variables = append(variables, broker.variable)
	}
	codex, socket, err := b.startWorker(ctx, l.worker(), variables...)
	if err != nil {
		return err
	}
	defer codex.stop()
	d, err := b.startBefore(ctx, socket, manyPlaces)
	if d != nil {
		defer d.stop()
	}
	if err != nil {
		return err
	}
	a := &asker{bench: b, distant: l, daemon: d}
	if err := a.warm(ctx); err != nil {
		return err
	}
	before := l.Counts()
	spent, err := codex.spent()
	if err != nil {
		return err
	}
	var spentByBroker time.Duration
	if broker != nil {
		if spentByBroker, err = broker.spent(); err != nil {
			return err
		}
	}
	if err := a.rows(ctx); err != nil {
		return err
	}
	if l.kind != ofOpenAI && l.over.RoundTrip > 0 && l.over.Up == 0 && l.over.Idle == 0 {
		if err := a.kept(ctx); err != nil {
			return err
		}
	}
	came := l.Counts().Since(before)
	now, err := codex.spent()
	if err != nil {
		return err
	}
	b.result.One(l.name+"connections for 100 turns", "", 0, 100*float64(came.Connections)/float64(a.asked.Load()))
	b.result.One(l.name+"CPU of codex, a turn", "ms", 0, micros(now-spent)/1000/float64(a.asked.Load()))
	if broker == nil {
		return nil
	}
	if now, err = broker.spent(); err != nil {
		return err
	}
	b.result.One(l.name+"CPU of the broker, a turn", "ms", 0, micros(now-spentByBroker)/1000/float64(a.asked.Load()))
	rss, err := broker.memory("VmRSS")
	if err != nil {
		return err
	}
	b.result.One(l.name+"memory of the broker", "MiB", 0, rss)
	return nil
}

// asker asks the daemon, and the endpoint directly.
type asker struct {
	*bench
	distant
	daemon *daemon
	pooled *http.Client // of the endpoint
	asked  atomic.Int64
}

// warm makes the first turns, and the connections of the direct client.
func (a *asker) warm(ctx context.Context) error {
	transport := &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: a.authority.Pool, MinVersion: tls.VersionTLS12}}
	context.AfterFunc(ctx, transport.CloseIdleConnections)
	a.pooled = &http.Client{Transport: transport}
	for n := range 2 {
		if _, err := a.ask(ctx, helper(question(n))); err != nil {
			return err
		}
		if _, err := a.directly(ctx, 0); err != nil {
			return err
		}
	}
	return pause(ctx, betweenAsks)
}

// rows are the kinds of requests.
func (a *asker) rows(ctx context.Context) error {
	size := 0
	if a.over.Up > 0 {
		size = largePrompt
	}
	direct, err := a.inTurn(ctx, func(int) (time.Duration, error) { return a.directly(ctx, size) })
	if err != nil {
		return err
	}
	floor := quantile(direct, 0.5)
	add := func(what string, times []time.Duration) {
		a.result.One(a.name+what, "ms", a.must(what), micros(quantile(times, 0.5)-floor)/1000)
	}
	a.result.One(a.name+"a client with a connection", "ms", 0, micros(floor)/1000)
	if size == 0 {
		for _, row := range []struct {
			what string
			of   func(n int) []message
		}{
			{rowKnown, func(n int) []message { return helper(question(n)) }},
			{rowOwn, func(n int) []message {
				return []message{{"system", "You are the helper of " + question(n)}, {"user", "How is the weather?"}}
			}},
		} {
			times, err := a.inTurn(ctx, func(n int) (time.Duration, error) { return a.ask(ctx, row.of(n)) })
			if err != nil {
				return err
			}
			add(row.what, times)
		}
		times, err := a.burst(ctx)
		if err != nil {
			return err
		}
		add(rowBurst, times)
	}
	times, err := a.continued(ctx, size)
	if err != nil {
		return err
	}
	add(rowContinued, times)
	if a.over.RoundTrip == 0 {
		return a.many(ctx)
	}
	return nil
}

// manyTurns is how many turns each of several clients makes, one after the other.
const manyTurns = 20

// many makes the turns of several clients at the same time, and adds the time of one: a broker's is to be two thirds of
// that without one.
func (a *asker) many(ctx context.Context) error {
	var rounds []time.Duration
	for range a.rounds + 1 {
		began := time.Now()
		var g errgroup.Group
		for range atOnce {
			g.Go(func() error {
				for n := range manyTurns {
					if _, err := a.ask(ctx, helper(question(n))); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		rounds = append(rounds, time.Since(began)/(atOnce*manyTurns))
	}
	took := micros(quantile(rounds[1:], 0.5)) / 1000 // the first was to warm up
	if a.kind == ofOpenAI {
		*a.alone = took
		a.result.One(a.name+"a turn of many", "ms", 0, took)
		return nil
	}
	a.result.One(a.name+"a turn of many", "ms", *a.alone*2/3, took)
	return nil
}

// keptAtOnce is how many conversations are kept.
const keptAtOnce = 32

// kept counts the connections while conversations are kept, each after two turns: short ones, then long ones.
func (a *asker) kept(ctx context.Context) error {
	for _, kind := range []struct {
		what string
		size int
		most float64
	}{{"short", 0, 8}, {"long", largePrompt, 0}} {
		a.Most()
		for n := range keptAtOnce {
			messages := helper(question(n) + strings.Repeat(" word", kind.size/5))
			for range 2 {
				if _, err := a.ask(ctx, messages); err != nil {
					return err
				}
				messages = append(messages, message{"assistant", line.Answer}, message{"user", question(n)})
			}
		}
		a.result.One(fmt.Sprintf("%sconnections at once, %d %s conversations kept", a.name, keptAtOnce, kind.what), "", kind.most,
			float64(a.Most()))
	}
	return nil
}

// inTurn makes some requests, one after the other. With a line that closes idle connections, it has closed them.
func (a *asker) inTurn(ctx context.Context, ask func(n int) (time.Duration, error)) (times []time.Duration, err error) {
	for n := range 2 * a.rounds {
		if err := pause(ctx, betweenAsks+a.over.Idle+a.over.Idle/2); err != nil {
			return nil, err
		}
		took, err := ask(n)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

// burst makes many requests at once, three times.
func (a *asker) burst(ctx context.Context) (times []time.Duration, err error) {
	for range 3 {
		if err := pause(ctx, 2*time.Second); err != nil {
			return nil, err
		}
		var g errgroup.Group
		took := make([]time.Duration, atOnce)
		for n := range took {
			g.Go(func() (err error) {
				took[n], err = a.ask(ctx, helper(question(n)))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		times = append(times, took...)
	}
	return times, nil
}

// continued makes the turns of one conversation, after the first.
func (a *asker) continued(ctx context.Context, size int) ([]time.Duration, error) {
	messages := helper(question(0) + strings.Repeat(" word", size/5))
	if _, err := a.ask(ctx, messages); err != nil {
		return nil, err
	}
	return a.inTurn(ctx, func(n int) (time.Duration, error) {
		messages = append(messages, message{"assistant", line.Answer}, message{"user", question(n)})
		return a.ask(ctx, messages)
	})
}

// helper is a conversation that begins as others do.
func helper(question string) []message {
	return []message{{"system", "You are a helpful assistant."}, {"user", question}}
}

// ask returns how long the first text of an answer took.
func (a *asker) ask(ctx context.Context, messages []message) (time.Duration, error) {
	body, err := json.Marshal(map[string]any{"model": modelOfLine, "stream": true, "messages": messages})
	if err != nil {
		return 0, err
	}
	a.asked.Add(1)
	return firstText(ctx, http.DefaultClient, "http://"+a.daemon.address+chatPath, a.daemon.key, body)
}

// directly is ask of the endpoint itself, with a prompt of so many bytes.
func (a *asker) directly(ctx context.Context, size int) (time.Duration, error) {
	body, err := json.Marshal(map[string]any{"model": modelOfLine, "stream": true, "input": strings.Repeat("word ", size/5)})
	if err != nil {
		return 0, err
	}
	return firstText(ctx, a.pooled, "https://"+a.Address+"/v1/responses", "sk-test", body)
}

// firstText sends a request, reads the whole answer, and returns when its text came.
func firstText(ctx context.Context, client *http.Client, url, key string, body []byte) (took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	began := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return 0, fmt.Errorf("%s answered %s: %s", url, res.Status, text)
	}
	events := bufio.NewScanner(res.Body)
	events.Buffer(nil, 1<<20)
	for events.Scan() {
		if took == 0 && bytes.Contains(events.Bytes(), []byte(line.Answer[:5])) {
			took = time.Since(began)
		}
	}
	if err := events.Err(); err != nil {
		return 0, err
	}
	if took == 0 {
		return 0, errors.New("an answer had no text")
	}
	return took, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
