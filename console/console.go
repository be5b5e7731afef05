// Package console is `codex-proxy console` and `codex-runner console`: a page on the loopback for as long as the
// command runs. This process has the rights of the caller and carries out a few orders; the server, to which browsers
// connect, is another process without rights.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"syscall"

	"codex-proxy/console/launch"
	"codex-proxy/console/page"
	"codex-proxy/console/pipe"
	"codex-proxy/console/server"
	"codex-proxy/console/verbs"
	"codex-proxy/internal/resident"
)

// Console is one run of the command.
type Console struct {
	Port     int // 0: any
	ReadOnly bool
	Page     server.Page
	// Ask is an error if the service does not run, or the caller may not use it.
	Ask func(context.Context) error
	// Verbs are the orders that the page may give.
	Verbs  map[string]verbs.Verb
	Stdout io.Writer
	Stderr io.Writer // for people
}

// httpPort is the port of an address without one.
const httpPort = 80

// start is the text that the server gets when it starts.
type start struct {
	Token    string      `json:"token"`
	ReadOnly bool        `json:"read_only"`
	Page     server.Page `json:"page"`
}

// Run prints the link, and serves the page until SIGINT, SIGTERM, SIGHUP or the end of ctx.
func (c *Console) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends this process
	if c.Port == httpPort {
		return errors.New("browsers leave out port 80 in their requests, by which the console knows its own; name " +
			"another one with --port")
	}
	if err := c.Ask(ctx); err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: c.Port})
	if err != nil {
		return fmt.Errorf("cannot listen: %w; another console may run, or name another port with --port", err)
	}
	defer l.Close() //nolint:errcheck // the process ends
	port := l.Addr().(*net.TCPAddr).Port
	token := server.Token()
	text, err := json.Marshal(start{Token: token, ReadOnly: c.ReadOnly, Page: c.Page})
	if err != nil {
		return err
	}
	c.explain(port) // before the server's own words
	child, err := launch.Start(l, string(text), c.Stderr)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.Stdout, "http://127.0.0.1:%d/#%s\n", port, token); err != nil {
		return err
	}
	orders := make(chan error, 1)
	serving, end := context.WithCancel(ctx)
	defer end()
	go func() {
		defer end()
		orders <- pipe.Serve(serving, child.Orders, verbs.New(c.ReadOnly, c.Verbs).Handle)
	}()
	err = child.Wait(serving)
	end()
	if failed := <-orders; ctx.Err() == nil {
		return errors.Join(err, failed)
	}
	return nil
}

func (c *Console) explain(port int) {
	rights := "The page can change things; --read-only only shows them."
	if c.ReadOnly {
		rights = "The page only shows things."
	}
	fmt.Fprintf(c.Stderr, "Open this link within 60 seconds; it is valid once. Ctrl-C ends the console. %s\n"+
		"From another machine: ssh -L %d:127.0.0.1:%d SERVER first.\n", rights, port, port)
}

// Serve is the process without rights.
func Serve(ctx context.Context, stdin io.Reader) error {
	conn, l, text, err := launch.Inherited(stdin)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer l.Close()
	var s start
	if err := json.Unmarshal(text, &s); err != nil || s.Token == "" {
		return errors.New("this command is run by console")
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	_ = resident.Trim() // if the kernel refuses, the memory of the start stays
	orders := pipe.NewClient(conn)
	go func() {
		defer end() // the page has no use without the other process
		orders.Run()
	}()
	return server.New(server.Settings{Orders: orders, Files: page.Files(), Page: s.Page,
		Access:  server.NewLink(s.Token, s.Page.Service, s.ReadOnly),
		Origins: []string{server.Loopback(l.Addr().(*net.TCPAddr).Port)}}).Serve(ctx, l)
}
