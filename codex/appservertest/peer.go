package appservertest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json/jsontext"
)

const writeTimeout = 10 * time.Second

// Peer is one client's connection. Its methods may be called from any goroutine.
type Peer struct {
	server *Server
	ws     *websocket.Conn
	raw    net.Conn
	cancel context.CancelFunc // ends the turns and the requests to the client
	turns  sync.WaitGroup

	mu           sync.Mutex
	initialized  bool
	originator   string
	optOut       map[string]bool
	threads      map[string]*thread
	environments map[string]Environment          // of environment/add
	requests     map[string]chan json.RawMessage // to the client
	lastRequest  int

	writing sync.Mutex
}

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
	Trace  *Trace          `json:"trace,omitempty"`
}

func upgrade(s *Server, w http.ResponseWriter, r *http.Request, cancel context.CancelFunc) (*Peer, error) {
	raw, _ := r.Context().Value(connKey{}).(net.Conn)
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // codex takes any Origin on a unix socket
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(64 << 20)
	return &Peer{
		server:   s,
		ws:       ws,
		raw:      raw,
		cancel:   cancel,
		threads:  map[string]*thread{},
		requests: map[string]chan json.RawMessage{},
	}, nil
}

// run answers until the connection closes and its turns have ended.
func (p *Peer) run(ctx context.Context) {
	defer p.turns.Wait()
	defer p.Disconnect()
	for {
		_, b, err := p.ws.Read(context.Background())
		if err != nil || !utf8.Valid(b) { // codex closes the connection on invalid UTF-8
			return
		}
		var m message
		// Codex does not answer a message that it cannot parse, such as half of a surrogate pair.
		if !jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true)) || json.Unmarshal(b, &m) != nil {
			continue
		}
		switch {
		case m.Method == "":
			p.settle(m)
		case len(m.ID) > 0:
			p.handle(ctx, m)
		}
	}
}

// handle answers a request, in the order in which requests come.
func (p *Peer) handle(ctx context.Context, m message) {
	draining := p.server.received(m.Method, m.Trace)
	if fault := p.server.Faults[m.Method]; fault != nil && fault(ctx, p, m.ID) {
		return
	}
	if draining && (m.Method == "thread/start" || m.Method == "turn/start") {
		p.refuse(m.ID, -32600, "server is shutting down", map[string]any{"reason": "serverShuttingDown"})
		return
	}
	method, known := methods[m.Method]
	if !known {
		p.Refuse(m.ID, -32600, "Invalid request: unknown variant `"+m.Method+"`")
		return
	}
	if m.Method != "initialize" && !p.isInitialized() {
		p.Refuse(m.ID, -32600, "Not initialized")
		return
	}
	method(ctx, p, m)
}

// Reply sends a result.
func (p *Peer) Reply(id json.RawMessage, result any) {
	p.send(map[string]any{"id": id, "result": result})
}

// Refuse sends an error reply.
func (p *Peer) Refuse(id json.RawMessage, code int, text string) { p.refuse(id, code, text, nil) }

func (p *Peer) refuse(id json.RawMessage, code int, text string, data any) {
	e := map[string]any{"code": code, "message": text}
	if data != nil {
		e["data"] = data
	}
	p.send(map[string]any{"error": e, "id": id})
}

// Notify sends a notification, unless the client has opted out of it.
func (p *Peer) Notify(method string, params any) {
	p.mu.Lock()
	unwanted := p.optOut[method]
	p.mu.Unlock()
	if !unwanted {
		p.send(map[string]any{"method": method, "params": params, "emittedAtMs": time.Now().UnixMilli()})
	}
}

// Request sends a request to the client and returns the whole reply message.
func (p *Peer) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	reply := make(chan json.RawMessage, 1)
	p.mu.Lock()
	id := strconv.Itoa(p.lastRequest)
	p.lastRequest++
	p.requests[id] = reply
	p.mu.Unlock()
	p.send(map[string]any{"id": json.RawMessage(id), "method": method, "params": params})
	select {
	case r := <-reply:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *Peer) settle(m message) {
	p.mu.Lock()
	reply := p.requests[string(m.ID)]
	delete(p.requests, string(m.ID))
	p.mu.Unlock()
	if reply == nil {
		return
	}
	b, _ := json.Marshal(m)
	reply <- b
}

func (p *Peer) send(m any) {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // only the values of a script can fail
	}
	p.Send(b)
}

// Send sends one message verbatim, well formed or not.
func (p *Peer) Send(b []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	_ = p.ws.Write(ctx, websocket.MessageText, b)
}

// SendFragmented sends one message in frames of size bytes.
func (p *Peer) SendFragmented(b []byte, size int) {
	p.writing.Lock()
	defer p.writing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	w, err := p.ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return
	}
	for len(b) > 0 {
		n := min(size, len(b))
		if _, err := w.Write(b[:n]); err != nil {
			return
		}
		b = b[n:]
	}
	_ = w.Close()
}

// HalfFrame announces a frame, sends half of it and disconnects.
func (p *Peer) HalfFrame() {
	const size = 1000
	frame := binary.BigEndian.AppendUint16([]byte{0x81, 126}, size) // FIN, text, 16 bit length (RFC 6455, 5.2)
	p.writing.Lock()
	_, _ = p.raw.Write(append(frame, make([]byte, size/2)...))
	p.writing.Unlock()
	p.Disconnect()
}

// Disconnect closes the connection without a close frame.
func (p *Peer) Disconnect() {
	_ = p.raw.Close() // before the turns end, so that they send nothing
	p.cancel()
	_ = p.ws.CloseNow()
}

func (p *Peer) isInitialized() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.initialized
}
