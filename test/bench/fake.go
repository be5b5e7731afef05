package main

import (
	"context"
	"net"

	"golang.org/x/sync/errgroup"

	"codex-proxy/codex/appservertest"
)

// serveFakes is an app-server on each of these sockets.
func serveFakes(ctx context.Context, sockets []string) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, path := range sockets {
		l, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		g.Go(func() error { return (&appservertest.Server{Handler: answerTurn}).Serve(ctx, l) })
	}
	return g.Wait()
}

func answerTurn(ctx context.Context, t *appservertest.Turn) error {
	m := t.Begin("")
	err := play(ctx, t.Request.Prompt(), func(text string) error { m.Delta(text); return nil })
	if err != nil {
		return err
	}
	m.End()
	t.EndResponse(appservertest.Usage{Input: 100, Output: 20})
	return nil
}
