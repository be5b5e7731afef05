package keyed

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"codex-proxy/console/pipe"
	"codex-proxy/console/server"
)

// answerBound bounds the judgement of a key.
const answerBound = 10 * time.Second

// Connection is the way of the server to the process that carries orders out. It connects when it is used, and again
// after the end of that process. Its methods are safe for concurrent use.
type Connection struct {
	socket, service string

	mu     sync.Mutex
	client *pipe.Client // nil: not connected
	conn   net.Conn
}

// NewConnection returns the way over a unix socket.
func NewConnection(socket, service string) *Connection {
	return &Connection{socket: socket, service: service}
}

// connected is a client that runs.
func (c *Connection) connected(ctx context.Context) (*pipe.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, errUnreachable // a person without a key reads it: it names no path
	}
	client := pipe.NewClient(conn)
	c.client, c.conn = client, conn
	go func() {
		client.Run()
		c.forget(client)
	}()
	return client, nil
}

var errUnreachable = errors.New("the page cannot reach codex-console-orders.service; " +
	"systemctl status codex-console-orders.socket has the reason")

// Close ends the connection.
func (c *Connection) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		_ = c.conn.Close()
	}
}

// Do implements server.Orders.
func (c *Connection) Do(ctx context.Context, o pipe.Order) (value json.RawMessage, err error) {
	err = c.order(ctx, func(client *pipe.Client) error {
		value, err = client.Do(ctx, o)
		return err
	})
	return value, err
}

// Stream implements server.Orders.
func (c *Connection) Stream(ctx context.Context, o pipe.Order, each func(json.RawMessage) error) error {
	return c.order(ctx, func(client *pipe.Client) error { return client.Stream(ctx, o, each) })
}

// order gives an order, once more over a new connection if the other process has ended before.
func (c *Connection) order(ctx context.Context, give func(*pipe.Client) error) error {
	client, err := c.connected(ctx)
	if err != nil {
		return err
	}
	if err = give(client); errors.Is(err, pipe.ErrUnsent) {
		c.forget(client)
		if client, err = c.connected(ctx); err != nil {
			return err
		}
		err = give(client)
	}
	if errors.Is(err, pipe.ErrEnded) {
		return errEnded
	}
	return err
}

// errEnded is pipe.ErrEnded of a process of systemd.
var errEnded = errors.New("codex-console-orders.service has ended the connection: try again in a moment; " +
	"systemctl status codex-console-orders.service has the reason")

func (c *Connection) forget(client *pipe.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == client {
		_ = c.conn.Close()
		c.client = nil
	}
}

// Origins are the addresses of the page, by the settings.
func (c *Connection) Origins(ctx context.Context) (list []string, err error) {
	value, err := c.Do(ctx, pipe.Order{Verb: origins})
	if err == nil {
		err = json.Unmarshal(value, &list)
	}
	if err == nil && len(list) == 0 {
		err = errors.New("[console] of /etc/codex-proxy/config.toml names no origins: add the address of the page " +
			`there, such as origins = ["https://codex.example.com"]`)
	}
	return list, err
}

func (c *Connection) ask(ctx context.Context, o pipe.Order) (got begun, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	value, err := c.Do(ctx, o)
	if err == nil {
		err = json.Unmarshal(value, &got)
	}
	return got, err
}

// Begin implements server.Access.
func (c *Connection) Begin(ctx context.Context, secret string) (got server.Begun, why string, err error) {
	a, err := c.ask(ctx, pipe.Order{Verb: login, Words: map[string]string{"key": secret}})
	if err != nil {
		return got, "", err
	}
	got = server.Begun{Session: a.Session, ReadOnly: a.ReadOnly, Service: c.service, Key: a.Key}
	return got, a.Why, nil
}

// Known implements server.Access.
func (c *Connection) Known(ctx context.Context, of string) (why string, err error) {
	a, err := c.ask(ctx, pipe.Order{Verb: session, As: of})
	return a.Why, err
}

// Answer carries out a button of a notification (server.Settings).
func (c *Connection) Answer(ctx context.Context, token, decision string) error {
	_, err := c.Do(ctx, pipe.Order{Verb: answer, Words: map[string]string{"token": token, "decision": decision}})
	return err
}

// Person implements server.Access.
func (c *Connection) Person(session string) string { return named(session, time.Now()) }

// Keyed implements server.Access.
func (c *Connection) Keyed() bool { return true }
