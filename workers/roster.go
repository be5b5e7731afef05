package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
)

// ErrUnknown is a name that no worker of the pool has.
var ErrUnknown = errors.New("no such worker")

// roster is the workers of a pool, in the order of the settings. It never changes.
type roster []*Worker

// Names are the names of all workers, in the pool's order.
func (r roster) Names() []string {
	names := make([]string, 0, len(r))
	for _, w := range r {
		names = append(names, w.name)
	}
	return names
}

func (r roster) find(name string) (*Worker, error) {
	i := slices.IndexFunc(r, func(w *Worker) bool { return w.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknown, name, strings.Join(r.Names(), ", "))
	}
	return r[i], nil
}

// AwaitIdle returns nil when each of the named workers has been seen without a
// turn in flight, or ctx's error. It is meant for drained workers: the others may
// get turns again meanwhile.
func (r roster) AwaitIdle(ctx context.Context, names ...string) error {
	for _, name := range names {
		all, err := alike(r, name)
		if err != nil {
			return err
		}
		for _, w := range all {
			if err := w.awaitIdle(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Worker) awaitIdle(ctx context.Context) error {
	for {
		s, changed := w.view()
		if s.turns() == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("worker %s has turns in flight: %w", w.name, ctx.Err())
		}
	}
}

// SharesLogin reports whether the worker can lend its login, at once or when it has started, which a connection to the
// socket of a standby makes it do. A worker that an operator has drained or stopped does not.
func (r roster) SharesLogin(name string) bool {
	w, err := r.find(name)
	if err != nil {
		return false
	}
	s, _ := w.view()
	switch s.reason() {
	case probes.Ready, probes.Starting, probes.HandshakePending, probes.HandshakeLost, probes.Standby:
		return !s.drains.operator
	}
	return false
}

// Connect opens a connection to the worker's socket, or to that of the unit that keeps its login, on which line is the
// first one: the worker's shim or that unit answers it. It does not wait for a unit that starts.
func (r roster) Connect(name, line string) (*os.File, error) {
	w, err := r.find(name)
	if err != nil {
		return nil, err
	}
	dialed, err := net.DialTimeout("unix", cmp.Or(loginSocket(w), w.socket), annotateBound)
	if err != nil {
		return nil, fmt.Errorf("cannot reach worker %s: %w", name, err)
	}
	conn := dialed.(*net.UnixConn)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte(line))
	file, failed := conn.File()
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("cannot ask worker %s: %w", name, err)
	}
	return file, nil
}

// Reported takes over the limits of the worker's account that codex reported elsewhere, as the object rateLimits of its
// notification account/rateLimits/updated.
func (r roster) Reported(name string, limits json.RawMessage) {
	params, err := json.Marshal(map[string]json.RawMessage{"rateLimits": limits})
	if err != nil { // it is no JSON
		return
	}
	if w, err := r.find(name); err == nil {
		w.reader.Notified(appserver.Notification{Method: "account/rateLimits/updated", Params: params})
	}
}

// alike returns the workers with the codex of the named one, itself first.
func alike(r roster, name string) ([]*Worker, error) {
	w, err := r.find(name)
	if err != nil {
		return nil, err
	}
	all := []*Worker{w}
	for _, other := range r {
		if other != w && other.host == w.host {
			all = append(all, other)
		}
	}
	return all, nil
}

// introduce makes the accounts of one codex known to each other.
func introduce(r roster) {
	for _, w := range r {
		all, _ := alike(r, w.name) // its own name
		w.beside = all[1:]
	}
}
