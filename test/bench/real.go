package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/test/modelserver"

	"codex-proxy/test/bench/figures"
)

// endpointOfModels is where the scripted model endpoint listens.
const endpointOfModels = "127.0.0.1:18080"

// turns are of the real codex app-server before a scripted endpoint: driven directly,
// as well as we can, and through codex-proxy.
type turns struct {
	daemon *daemon
	conn   *appserver.Conn
}

// realCodex measures what codex-proxy adds to the turns of the real codex.
func (b *bench) realCodex(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running errgroup.Group
	defer func() { cancel(); _ = running.Wait() }() // the error is the end of ctx
	if err := serveModels(ctx, &running, "text It is a fine day."); err != nil {
		return err
	}
	codex, socket, err := b.startCodex(ctx, b.codex)
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
	conn, err := appserver.Dial(ctx, socket, appserver.Options{})
	if err != nil {
		return err
	}
	running.Go(func() error { return conn.Run(ctx) })
	if _, err := conn.Initialize(ctx); err != nil {
		return err
	}
	return b.compareTurns(ctx, turns{d, conn})
}

// serveModels serves the scripted model endpoint, which answers each request with these
// steps, until ctx ends.
func serveModels(ctx context.Context, running *errgroup.Group, steps ...string) error {
	l, err := net.Listen("tcp", endpointOfModels)
	if err != nil {
		return err
	}
	models := modelserver.New("demo")
	if err := models.Always("", steps...); err != nil {
		return err
	}
	running.Go(func() error { return models.Serve(ctx, l) })
	return nil
}

// startCodex runs codex as a worker before the scripted endpoint.
func (b *bench) startCodex(ctx context.Context, program string) (codex *process, socket string, err error) {
	return b.startWorker(ctx, map[string]string{"workers/w0.toml": fmt.Sprintf("mode = \"plain\"\ncodex_path = %q\n"+
		"model = \"demo\"\n[provider]\nname = \"scripted\"\nbase_url = \"http://%s/v1\"\n", program, endpointOfModels)})
}

// startWorker runs the codex of the worker w0 as `codex-proxy worker-prepare` makes it, with these files in its home.
func (b *bench) startWorker(ctx context.Context, files map[string]string, variables ...string) (codex *process, socket string, err error) {
	dir, err := os.MkdirTemp(b.dir, "codex-")
	if err != nil {
		return nil, "", err
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			return nil, "", err
		}
	}
	env := []string{"CODEX_HOME=" + dir, "HOME=" + dir, "RUNTIME_DIRECTORY=" + dir, "STATE_DIRECTORY=" + dir,
		"CONFIGURATION_DIRECTORY=" + dir, "TMPDIR=" + dir}
	prepare := exec.CommandContext(ctx, b.program, "worker-prepare", "w0")
	prepare.Env = append(append(os.Environ(), env...), variables...)
	if out, err := prepare.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("cannot prepare the worker: %w: %s", err, out)
	}
	socket = filepath.Join(dir, "w0.sock")
	env = append(env, "RUST_LOG=error", "SSL_CERT_FILE="+filepath.Join(dir, "certificates.pem")) // as codex-worker@.service has it
	codex, err = start(io.Discard, append(env, variables...), filepath.Join(dir, "codex"), "app-server",
		"--strict-config", "--listen", "unix://"+socket)
	if err != nil {
		return nil, "", err
	}
	return codex, socket, until(ctx, "codex", dialled("unix", socket))
}

// compareTurns interleaves the two ways, and reports the loss through codex-proxy in
// per cent.
func (b *bench) compareTurns(ctx context.Context, r turns) error {
	for _, row := range []struct {
		what    string
		limit   float64
		clients int
		count   int // of each client
		reused  bool
	}{
		{"real codex, one turn at a time: latency added", 3, 1, 40, false},
		{"real codex, 16 at a time: throughput lost", 3, 16, 10, false},
		{"real codex, 16 conversations: throughput lost", 10, 16, 12, true},
	} {
		var direct, through time.Duration
		for round := range b.rounds + 1 {
			if round == 1 { // the first was to warm up
				direct, through = 0, 0
			}
			for _, way := range []struct {
				took *time.Duration
				talk func(context.Context, int, bool) error
			}{{&direct, r.directly}, {&through, r.throughProxy}} {
				began := time.Now()
				g, gctx := errgroup.WithContext(ctx)
				for range row.clients {
					g.Go(func() error { return way.talk(gctx, row.count, row.reused) })
				}
				if err := g.Wait(); err != nil {
					return err
				}
				*way.took += time.Since(began)
			}
		}
		lost := 100 * (1 - float64(direct)/float64(through))
		if row.clients == 1 {
			lost = 100 * (float64(through)/float64(direct) - 1)
		}
		b.result.Add(perCent(row.what, row.limit, lost))
		all := float64(b.rounds * row.clients * row.count)
		fmt.Fprintf(os.Stderr, "%s: %.1f turns/s directly, %.1f through codex-proxy\n", row.what,
			all/direct.Seconds(), all/through.Seconds())
	}
	return nil
}

func perCent(what string, limit, value float64) figures.Row {
	return figures.Row{What: what, Unit: "%", Limit: limit, Quiet: true, Values: map[string]float64{ours: value}}
}

// directly runs turns on the app-server's own wire, each on a thread of its own or
// all on one.
func (r turns) directly(ctx context.Context, count int, reused bool) error {
	var thread *appserver.Thread
	instructions := "You are a helpful assistant."
	for n := range count {
		ask := appserver.TurnRequest{Model: "demo", BaseInstructions: &instructions,
			Items: []history.Item{history.TextMessage("user", question(n))}}
		turn, err := r.begin(ctx, thread, ask)
		if err != nil {
			return err
		}
		for done := false; !done; {
			event, err := turn.Next(ctx)
			if err != nil {
				return err
			}
			_, done = event.(appserver.TurnCompleted)
		}
		if reused {
			if thread = turn.Keep(); thread == nil {
				return errors.New("codex did not keep a thread")
			}
			continue
		}
		if err := turn.Close(ctx); err != nil {
			return err
		}
	}
	if thread != nil {
		thread.Close()
	}
	return nil
}

func (r turns) begin(ctx context.Context, thread *appserver.Thread,
	ask appserver.TurnRequest) (*appserver.Turn, error) {
	if thread != nil {
		return thread.StartTurn(ctx, ask)
	}
	return r.conn.StartTurn(ctx, ask)
}

// question differs each time, so that no conversation resembles an earlier one.
func question(n int) string { return fmt.Sprintf("question %d at %d", n, time.Now().UnixNano()) }

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// throughProxy asks for the same by chat completions, over a connection of its own.
func (r turns) throughProxy(ctx context.Context, count int, reused bool) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	system := message{"system", "You are a helpful assistant."}
	messages := []message{system}
	for n := range count {
		messages = append(messages, message{"user", question(n)})
		answer, err := r.chat(ctx, client, messages)
		if err != nil {
			return err
		}
		if messages = append(messages, answer); !reused {
			messages = []message{system}
		}
	}
	return nil
}

func (r turns) chat(ctx context.Context, client *http.Client, messages []message) (message, error) {
	body, err := json.Marshal(map[string]any{"model": "demo", "messages": messages})
	if err != nil {
		return message{}, err
	}
	l := load{address: r.daemon.address, key: r.daemon.key, body: func(int) []byte { return body }}
	req, err := l.request(ctx, 0)
	if err != nil {
		return message{}, err
	}
	res, err := client.Do(req)
	if err != nil {
		return message{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return message{}, err
	}
	var answer struct{ Choices []struct{ Message message } }
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&answer); err != nil || len(answer.Choices) != 1 {
		return message{}, fmt.Errorf("codex-proxy answered %s: %s", res.Status, data)
	}
	return answer.Choices[0].Message, nil
}
