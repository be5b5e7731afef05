package ports

import (
	"errors"
	"io"
	"sync"
	"time"
)

// A Stream is a connection with two directions that end one by one.
type Stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// TCP is a *net.TCPConn.
type TCP interface {
	Stream
	SetLinger(seconds int) error
}

// bufferSize is the most that a relay holds of a direction, in bytes.
const bufferSize = 32 << 10

// relay is one connection.
type relay struct {
	tcp     TCP
	stream  Stream
	session bool // tcp leads to the server
	idle    *time.Timer

	answered chan struct{} // closed when the server has ended its direction, and all of that is passed on
	once     sync.Once     // of cut
}

func newRelay(tcp TCP, stream Stream, session bool) *relay {
	return &relay{tcp: tcp, stream: stream, session: session, answered: make(chan struct{})}
}

func (o *relay) run() error {
	o.idle = time.AfterFunc(Idle, o.cut)
	defer o.idle.Stop()
	var in, out error
	var directions sync.WaitGroup
	directions.Go(func() { in = o.pass(o.tcp, o.stream, !o.session) })
	directions.Go(func() { out = o.pass(o.stream, o.tcp, o.session) })
	directions.Wait()
	o.cut()
	return errors.Join(in, out)
}

// pass passes one direction on.
func (o *relay) pass(to, from Stream, answer bool) error {
	// Without the other methods of a connection, which io.Copy would use.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, watched{from, o.idle}, make([]byte, bufferSize))
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		o.cut()
	}
	if answer {
		close(o.answered)
	}
	return err
}

// cut closes both sides. Unless the answer is whole, the peer of the TCP connection gets a reset (SO_LINGER of
// socket(7)).
func (o *relay) cut() {
	o.once.Do(func() {
		select {
		case <-o.answered:
		default:
			_ = o.tcp.SetLinger(0)
		}
		_ = o.tcp.Close()
		_ = o.stream.Close()
	})
}

// watched notes that a relay is used.
type watched struct {
	io.Reader
	idle *time.Timer
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.idle.Reset(Idle)
	}
	return n, err
}
