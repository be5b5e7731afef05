package workers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
)

// Lends reports whether the worker can lend its login, at once or when it has started, which a connection to the socket
// of a standby makes it do. A worker that an operator has drained or stopped does not.
func (r roster) Lends(name string) bool {
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

// Connect opens a connection to the worker's socket, on which line is the first one: the worker's shim answers it. It
// does not wait for a worker that starts.
func (r roster) Connect(name, line string) (*os.File, error) {
	w, err := r.find(name)
	if err != nil {
		return nil, err
	}
	dialed, err := net.DialTimeout("unix", w.socket, annotateBound)
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
		w.notified(appserver.Notification{Method: "account/rateLimits/updated", Params: params})
	}
}
