// Package pipe carries orders from the server of the console, which has no rights, to the process that has them. An
// order is a verb with words; its answer is one JSON value, or a stream of them.
package pipe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// maxOrder bounds one order, in bytes.
	maxOrder = 64 << 10
	// maxAnswer bounds one answer.
	maxAnswer = 8 << 20
	// maxOrders bounds the orders that are carried out at the same time.
	maxOrders = 32
	// maxUnread bounds the values of a stream that its reader has not taken.
	maxUnread = 16
)

// Order is a verb and its words.
type Order struct {
	Verb  string            `json:"verb"`
	Words map[string]string `json:"words,omitempty"`
	// As is the session of its person, where there are several.
	As string `json:"as,omitempty"`
}

// Handler carries an order out; it calls send with each value of a stream. The error is for the person who gave it.
type Handler func(ctx context.Context, o Order, send func(json.RawMessage) error) (json.RawMessage, error)

// request is one line to the process with rights.
type request struct {
	ID     uint64 `json:"id"`
	Cancel bool   `json:"cancel,omitempty"` // ends the order with this ID
	Order
}

// reply is one line from it.
type reply struct {
	ID    uint64          `json:"id"`
	Value json.RawMessage `json:"value,omitempty"`
	End   bool            `json:"end,omitempty"` // the last one of the order
	Error string          `json:"error,omitempty"`
}

// Serve carries out the orders that come over conn until that ends, or ctx. A line that is no order ends it.
func Serve(ctx context.Context, conn io.ReadWriteCloser, handle Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &orders{conn: conn, handle: handle, running: map[uint64]context.CancelFunc{}}
	defer s.group.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 4096), maxOrder)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("the server of the console has sent no order: %w", err)
		}
		s.take(ctx, r)
	}
	if ctx.Err() != nil {
		return nil
	}
	return lines.Err()
}

// orders are the orders of one connection.
type orders struct {
	conn   io.Writer
	handle Handler
	group  sync.WaitGroup

	mu      sync.Mutex // guards the writes, and running
	running map[uint64]context.CancelFunc
}

func (s *orders) take(ctx context.Context, r request) {
	s.mu.Lock()
	cancel, known := s.running[r.ID]
	crowded := len(s.running) >= maxOrders
	if !r.Cancel && !known && !crowded {
		ctx, cancel = context.WithCancel(ctx)
		s.running[r.ID] = cancel
	}
	s.mu.Unlock()
	switch {
	case r.Cancel && known:
		cancel()
	case r.Cancel, known:
	case crowded:
		_ = s.send(reply{ID: r.ID, End: true, Error: "too many orders at the same time"})
	default:
		s.group.Go(func() {
			defer cancel()
			s.carryOut(ctx, r)
		})
	}
}

func (s *orders) carryOut(ctx context.Context, r request) {
	value, err := s.handle(ctx, r.Order, func(value json.RawMessage) error {
		return s.send(reply{ID: r.ID, Value: value})
	})
	s.mu.Lock()
	delete(s.running, r.ID)
	s.mu.Unlock()
	last := reply{ID: r.ID, Value: value, End: true}
	if err != nil {
		last.Error = err.Error()
	}
	if err := s.send(last); errors.Is(err, errLong) { // a server that has gone needs no answer
		_ = s.send(reply{ID: r.ID, End: true, Error: err.Error()})
	}
}

// errLong is the end of an order alone: a longer line would be the end of the console.
var errLong = fmt.Errorf("the answer is too long for the page: it has more than %d MiB", maxAnswer>>20)

// Encode is a value as JSON. <, > and & take one byte each, in contrast to json.Marshal.
func Encode(value any) ([]byte, error) {
	var line bytes.Buffer
	to := json.NewEncoder(&line)
	to.SetEscapeHTML(false)
	err := to.Encode(value)
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), err
}

func (s *orders) send(r reply) error {
	line, err := Encode(r)
	if err == nil && len(line) >= maxAnswer {
		err = errLong
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = s.conn.Write(append(line, '\n'))
	return err
}

// ErrEnded means that the process with rights has ended.
var ErrEnded = errors.New("the console has ended; start it again")

// ErrUnsent means that an order was not sent, and not carried out.
var ErrUnsent = errors.New("the order has not been sent")

// unsent is another error that is ErrUnsent, too.
type unsent struct{ error }

// Is has errors.Is find ErrUnsent.
func (unsent) Is(target error) bool { return target == ErrUnsent }

// Unwrap has errors.Is find the other error.
func (u unsent) Unwrap() error { return u.error }

// ErrSlow means that a stream was not read fast enough.
var ErrSlow = errors.New("the page does not read its stream")

// Client gives orders. Its methods are safe for concurrent use; Run has to run.
type Client struct {
	conn io.ReadWriteCloser

	writing sync.Mutex // guards the writes
	mu      sync.Mutex // guards the rest
	number  uint64
	waiting map[uint64]chan reply // each has room for maxUnread
	ended   bool
}

// NewClient returns a client over conn.
func NewClient(conn io.ReadWriteCloser) *Client {
	return &Client{conn: conn, waiting: map[uint64]chan reply{}}
}

// Run takes the answers until the connection ends.
func (c *Client) Run() {
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(make([]byte, 4096), maxAnswer)
	for lines.Scan() {
		var r reply
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			break
		}
		c.deliver(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for id, to := range c.waiting {
		delete(c.waiting, id)
		close(to)
	}
}

func (c *Client) deliver(r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, known := c.waiting[r.ID]
	if !known {
		return
	}
	full := false
	select {
	case to <- r:
	default:
		full = true
	}
	if r.End || full {
		delete(c.waiting, r.ID)
		close(to)
	}
}

// Do carries out one order.
func (c *Client) Do(ctx context.Context, o Order) (json.RawMessage, error) {
	var last json.RawMessage
	err := c.Stream(ctx, o, func(value json.RawMessage) error {
		last = value
		return nil
	})
	return last, err
}

// Stream calls each with each value of an order until it ends, ctx does, or each fails.
func (c *Client) Stream(ctx context.Context, o Order, each func(json.RawMessage) error) error {
	id, answers, err := c.begin(o)
	if err != nil {
		return err
	}
	ended := false
	defer func() { c.leave(id, ended) }()
	for {
		select {
		case r, open := <-answers:
			ended = r.End
			switch {
			case !open:
				return c.cause()
			case r.Error != "":
				return errors.New(r.Error)
			case r.Value != nil:
				if err := each(r.Value); err != nil {
					return err
				}
			}
			if ended {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *Client) begin(o Order) (id uint64, answers chan reply, err error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return 0, nil, unsent{ErrEnded}
	}
	c.number++
	id, answers = c.number, make(chan reply, maxUnread)
	c.waiting[id] = answers
	c.mu.Unlock()
	if err := c.write(request{ID: id, Order: o}); err != nil {
		c.leave(id, true)
		return 0, nil, err
	}
	return id, answers, nil
}

// leave cancels an order that has not ended, even if nobody waits for it any more, as its reader was slow.
func (c *Client) leave(id uint64, ended bool) {
	c.mu.Lock()
	delete(c.waiting, id)
	c.mu.Unlock()
	if !ended {
		_ = c.write(request{ID: id, Cancel: true})
	}
}

// cause is why a stream has ended without its last value.
func (c *Client) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return ErrEnded
	}
	return ErrSlow
}

// write sends a request. ErrUnsent is the fault of the connection, and not one of the request itself.
func (c *Client) write(r request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(line) >= maxOrder {
		return errors.New("the order is too long")
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err = c.conn.Write(append(line, '\n')); err != nil {
		return unsent{err}
	}
	return nil
}
