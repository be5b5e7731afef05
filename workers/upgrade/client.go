package upgrade

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"codex-proxy/internal/ondemand"
)

// Client asks for steps at a socket.
type Client struct{ Socket string }

// Look asks for Steps.Look.
func (c Client) Look(ctx context.Context) (o Outcome, err error) {
	return o, c.ask(ctx, lookPath, struct{}{}, &o)
}

// Back asks for Steps.Back.
func (c Client) Back(ctx context.Context, b Back) error { return c.ask(ctx, backPath, b, &struct{}{}) }

func (c Client) ask(ctx context.Context, path string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, TrialBound)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://copies"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	}}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return fmt.Errorf("cannot ask codex-copies.service: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(cmp.Or(resp.Header.Get(ondemand.ReasonHeader), resp.Status))
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxRequest)).Decode(answer)
}
