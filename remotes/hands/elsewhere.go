package hands

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/pulse"
	"codex-proxy/runner/client"
)

// Elsewhere is an exec-server on another host, which codex-proxy does not start.
type Elsewhere struct {
	URL   string
	Token string
	Roots *x509.CertPool // nil: the system's
}

const (
	// pingEvery is the interval of pings to an exec-server elsewhere, and pingBound how long it may take to answer one:
	// a network that loses everything ends no connection.
	pingEvery, pingBound = 15 * time.Second, 15 * time.Second
	// openBound is how long an exec-server may take to answer, and to notice that an earlier connection has ended: it
	// looks every 30 s.
	openBound = 45 * time.Second
	// closeBound bounds the end of the processes of one session elsewhere.
	closeBound = 5 * time.Second
	// endBatch is how many processes end in one round trip, and endPause the pause before the next one.
	endBatch, endPause = 64, 20 * time.Millisecond
	// unknownSession begins the refusal of a session that has ended. A session is also refused while the exec-server
	// takes an earlier connection for alive.
	unknownSession = "unknown session id"
)

// far are the hands of a remote on another host.
type far struct{ *Hands }

// open ends the processes of an earlier codex, so that none of its commands goes on beside the turn that follows, and
// returns when the exec-server answers.
func (h far) open(ctx context.Context) error {
	h.Status("Starting: the hands at " + h.Elsewhere.URL + " are asked")
	ctx, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	for {
		server, err := h.Elsewhere.Ask(ctx)
		if err == nil {
			err = server.tooOld()
		}
		if err == nil {
			err = h.end(ctx)
		}
		var final *finalError
		if err == nil || errors.As(err, &final) || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("the hands at %s: %w", h.Elsewhere.URL, err)
			}
			return nil
		}
		wait(ctx, time.Second)
	}
}

// finalError is an error that another try would have, too.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// run reports when the exec-server answers no more, until ctx ends.
func (h far) run(ctx context.Context) {
	for well := true; ; {
		if wait(ctx, h.pace.every); ctx.Err() != nil {
			return
		}
		err := probes(h).answers(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && well {
			h.Logger.Warn("hands do not answer", "error", err)
		}
		well = err == nil
	}
}

// end ends the processes of all sessions in the record, and forgets these. After an error it goes on with the next one.
func (h far) end(ctx context.Context) (err error) {
	for _, s := range h.took.all() {
		err = cmp.Or(err, h.endSession(ctx, s))
	}
	if err == nil {
		h.took.forget()
	}
	return err
}

// endSession ends the processes of a session, if the exec-server still has that.
func (h far) endSession(ctx context.Context, s takenSession) error {
	if len(s.Processes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeBound)
	defer cancel()
	ws, err := h.Elsewhere.dial(ctx)
	if err != nil {
		return err
	}
	c := &connection{ws: ws}
	defer c.close()
	ws.SetReadLimit(maxMessage)
	_, err = c.greet(ctx, &s.ID)
	var refused *refusedError
	if errors.As(err, &refused) && strings.HasPrefix(refused.words, unknownSession) { // with its processes
		h.took.left(s.ID)
		return nil
	}
	for left := s.Processes; err == nil && len(left) > 0; wait(ctx, endPause) {
		n := min(endBatch, len(left))
		var ended, run []string
		ended, run, err = c.terminate(ctx, left[:n])
		h.took.ended(s.ID, ended...) // also if the rest is left to the next try
		left = append(left[n:], run...)
	}
	if err == nil {
		h.took.left(s.ID)
	}
	return err
}

// terminate ends processes. It sends all requests before it reads an answer, and returns which processes have ended and
// which still run.
func (c *connection) terminate(ctx context.Context, ids []string) (ended, run []string, err error) {
	asked := map[int]string{}
	for _, id := range ids {
		_, err = c.send(ctx, terminateMethod, map[string]string{"processId": id})
		var read int
		if err == nil {
			read, err = c.send(ctx, "process/read", map[string]any{"processId": id, "maxBytes": 1, "waitMs": 1000})
		}
		if err != nil {
			return nil, nil, err
		}
		asked[read] = id
	}
	for len(asked) > 0 {
		m, err := c.read(ctx)
		if err != nil {
			return ended, run, err
		}
		if m.ID == nil || m.Method != "" {
			continue
		}
		id, is := asked[*m.ID]
		delete(asked, *m.ID)
		switch {
		case is && m.hasEnded():
			ended = append(ended, id)
		case is:
			run = append(run, id)
		}
	}
	return ended, run, nil
}

// hasEnded reads the answer to process/read.
func (m message) hasEnded() bool {
	if m.Error != nil { // it is gone, unless it starts just now
		return !strings.HasSuffix(m.Error.Message, "is starting")
	}
	var state struct {
		Exited bool `json:"exited"`
	}
	return json.Unmarshal(m.Result, &state) == nil && state.Exited
}

// Server is the report of an exec-server on itself.
type Server struct {
	Version string `json:"executorVersion"` // empty: it has none
	Session string `json:"sessionId"`
}

func (s Server) tooOld() error {
	if s.Version != "" && versions.Older(s.Version, client.OldestExecServer) {
		return &finalError{fmt.Errorf("codex %s there is too old: install codex 0.%d or later", s.Version,
			client.OldestExecServer)}
	}
	return nil
}

// Ask asks the exec-server for a handshake.
func (e *Elsewhere) Ask(ctx context.Context) (s Server, err error) {
	ws, err := e.dial(ctx)
	if err != nil {
		return s, err
	}
	ws.SetReadLimit(maxMessage)
	c := &connection{ws: ws}
	defer c.close()
	return c.greet(ctx, nil)
}

func (e *Elsewhere) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, headBound)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: e.Roots, MinVersion: tls.VersionTLS12}}
	conn, answer, err := websocket.Dial(ctx, e.URL, &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		HTTPClient: &http.Client{Transport: transport, CheckRedirect: noRedirect},
		HTTPHeader: http.Header{"Authorization": {"Bearer " + e.Token}}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil && answer != nil && answer.StatusCode == http.StatusUnauthorized {
		return nil, &finalError{errors.New("the token is refused: hands.token_file has to have the one that the " +
			"exec-server was started with")}
	}
	return conn, err
}

// noRedirect keeps the token from another server.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ping ends a connection when its peer is silent, by end.
func ping(ctx context.Context, of *pulse.Pulse, conn pulse.Conn, end func()) {
	for {
		if wait(ctx, pingEvery); ctx.Err() != nil {
			return
		}
		if !of.Alive(ctx, conn, pingBound) {
			end()
			return
		}
	}
}

// maxToken bounds the file of a token, and maxAuthorities the file of the authorities, in bytes.
const maxToken, maxAuthorities = 4 << 10, 4 << 20

// ReadTokenFile is ReadToken for a file.
func ReadTokenFile(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	defer file.Close()
	return ReadToken(file)
}

// ReadToken reads the token of an exec-server.
func ReadToken(from io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(text) > maxToken || len(token) < client.LeastToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("there is no token in the file: write one line of at least %d random characters, as "+
			"`openssl rand -hex 32` prints", client.LeastToken)
	}
	return token, nil
}

// NewElsewhere reads the file of the certificate authorities, unless its name is empty.
func NewElsewhere(url, token, authorities string) (*Elsewhere, error) {
	e := &Elsewhere{URL: url, Token: token}
	if authorities == "" {
		return e, nil
	}
	text, err := readBounded(authorities, maxAuthorities)
	if err != nil {
		return nil, fmt.Errorf("cannot read hands.ca_file: %w", err)
	}
	e.Roots = x509.NewCertPool()
	if !e.Roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("hands.ca_file has no certificate in PEM: %s", authorities)
	}
	return e, nil
}

func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}
