package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// daemon is the shipped codex-proxy, with an API key, metrics, a usage
// database and its log, in front of fakes in a process of their own.
type daemon struct {
	*process
	program  string
	fakes    *process
	address  string
	key      string
	settings string        // lines of its configuration
	ready    time.Duration // from exec to READY=1
	talk     *pauses
}

// manyPlaces are settings for measurements in which no request waits for a place.
const manyPlaces = "max_inflight = 96\n"

// startDaemon starts codex-proxy in front of so many workers, and returns when it has
// sent READY=1 and a worker answers.
func (b *bench) startDaemon(ctx context.Context, workers int, env ...string) (*daemon, error) {
	return b.startProgram(ctx, b.program, workers, manyPlaces, env...)
}

// startProgram is startDaemon of another version.
func (b *bench) startProgram(ctx context.Context, program string, workers int, settings string,
	env ...string) (*daemon, error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return nil, err
	}
	d := b.newDaemon()
	names, sockets := make([]string, workers), make([]string, workers)
	for i := range workers {
		names[i] = fmt.Sprintf("%q", fmt.Sprintf("w%d", i))
		sockets[i] = filepath.Join(dir, fmt.Sprintf("w%d.sock", i))
	}
	if d.fakes, err = start(os.Stderr, nil, "/proc/self/exe", append([]string{fakeName}, sockets...)...); err != nil {
		return nil, err
	}
	if err := until(ctx, "the fake", dialled("unix", sockets[workers-1])); err != nil {
		return d, err
	}
	d.program, d.settings = program, settings
	return d, b.configured(ctx, d, dir, dir, names, env)
}

// startBefore starts it before a worker that is there, whose socket is that of
// the name w0.
func (b *bench) startBefore(ctx context.Context, socket, settings string) (*daemon, error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return nil, err
	}
	d := b.newDaemon()
	d.settings = settings
	return d, b.configured(ctx, d, dir, filepath.Dir(socket), []string{`"w0"`}, nil)
}

// newDaemon has an address of its own: several may run beside each other.
func (b *bench) newDaemon() *daemon {
	b.daemons++
	return &daemon{program: b.program, talk: &pauses{}, address: fmt.Sprintf("127.0.0.1:%d", 8800+b.daemons)}
}

func (b *bench) configured(ctx context.Context, d *daemon, dir, sockets string, names, env []string) (err error) {
	if d.key, err = b.addKey(dir); err != nil {
		return err
	}
	config := fmt.Sprintf("listen = %q\nworkers = [%s]\nsocket_dir = %q\napi_keys = %q\ntextfile = \"\"\n%s",
		d.address, strings.Join(names, ", "), sockets, filepath.Join(dir, "api-keys"), d.settings)
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	return d.exec(ctx, dir, file, env)
}

func (b *bench) addKey(dir string) (string, error) {
	out, err := exec.Command(b.program, "keys", "add", "bench", "--file", filepath.Join(dir, "api-keys")).Output()
	if err != nil {
		return "", fmt.Errorf("cannot add a key: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (d *daemon) exec(ctx context.Context, dir, config string, env []string) error {
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		return err
	}
	defer notify.Close()
	log, stderr, err := os.Pipe()
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(d.talk, log); _ = log.Close() }() // to the end of the daemon
	defer stderr.Close()
	stream, err := asService(stderr)
	if err != nil {
		return err
	}
	env = append(env, "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "STATE_DIRECTORY="+dir, stream)
	began := time.Now()
	if d.process, err = start(stderr, env, d.program, "serve", "--config", config); err != nil {
		return err
	}
	_ = notify.SetReadDeadline(began.Add(30 * time.Second))
	for message := make([]byte, 4096); ; {
		n, err := notify.Read(message)
		if err != nil {
			return fmt.Errorf("codex-proxy did not become ready: %w\n%s", err, d.talk.last())
		}
		if bytes.Contains(message[:n], []byte("READY=1")) {
			d.ready = time.Since(began)
			break
		}
	}
	return until(ctx, "every worker", d.whole)
}

// whole reports whether all workers are ready, not only the first.
func (d *daemon) whole() error {
	res, err := http.Get("http://" + d.address + "/readyz")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	_, list, _ := strings.Cut(string(body), `"workers":[`)
	if strings.Contains(list, `"ready":false`) || res.StatusCode != http.StatusOK {
		return fmt.Errorf("not all workers are ready: %.300s", body)
	}
	return nil
}

func (d *daemon) stop() {
	if d.process != nil {
		d.process.stop()
	}
	if d.fakes != nil {
		d.fakes.stop()
	}
}
