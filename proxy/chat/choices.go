package chat

import (
	"context"
	"errors"
	"strconv"

	"golang.org/x/sync/errgroup"

	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/turn"
)

// largeStart is the size of a request that starts its choices one after another: each start sends all of it.
const largeStart = 1 << 20

// errPanicked ends the other choices after one panicked.
var errPanicked = errors.New("a choice panicked")

// part is one of several choices. It belongs to the goroutine of its turn.
type part struct {
	report   turn.Report
	output   limits.Output
	panicked any
}

// runAll runs a turn for each choice, all at the same time. A choice that fails ends the
// others: an answer has all choices, or none.
func (c *completion) runAll(ctx context.Context, planned plan) error {
	if planned.turn.Footprint() > largeStart {
		planned.starts = make(chan struct{}, 1)
	}
	parts := make([]part, c.req.N)
	defer func() {
		for i := range parts {
			parts[i].output.Release()
		}
	}()
	err := c.runParts(ctx, planned, parts)
	for i := range parts {
		c.x.Turn.Add(parts[i].report)
	}
	for i := range parts {
		if parts[i].panicked != nil {
			panic(parts[i].panicked)
		}
	}
	if c.x.Turn.Attempts > 0 {
		c.w.Header().Set("X-Codex-Attempts", strconv.Itoa(c.x.Turn.Attempts))
	}
	if err != nil {
		return err
	}
	return c.finish()
}

func (c *completion) runParts(ctx context.Context, planned plan, parts []part) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		p := &parts[i]
		p.output = c.x.Grant.Answer.Another()
		g.Go(func() (err error) {
			defer p.rescue(&err)
			return c.Turns.Run(ctx, c.request(planned, &p.report), c.sink(i, &p.report, &p.output))
		})
	}
	return g.Wait()
}

// rescue carries a panic to the goroutine of the request, where it ends the request and
// not the program.
func (p *part) rescue(err *error) {
	if p.panicked = recover(); p.panicked != nil {
		*err = errPanicked
	}
}
