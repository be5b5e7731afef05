package brokerunit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/upstream"
)

const (
	// publishPause is the time between two states. An idle broker publishes none.
	publishPause = time.Second
	// publishPeriod is the longest time between two states while an answer is in flight.
	publishPeriod = 10 * time.Second
)

// publisher publishes the state of a broker: as a file, and in the line of `systemctl status`.
type publisher struct {
	state   func() *brokerstate.State
	changed <-chan struct{}
	dir     string       // of the unit; empty: there is no file
	status  func(string) // sets the line
	ready   string       // the line while nothing is wrong
	logger  *slog.Logger

	shown brokerstate.Failure
	mute  bool // it was logged that the file cannot be written
}

// run publishes until ctx ends.
func (p *publisher) run(ctx context.Context) {
	pause := time.NewTicker(publishPause)
	defer pause.Stop()
	for {
		var again <-chan time.Time
		if p.publish() > 0 {
			again = time.After(publishPeriod)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-again:
		}
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// publish publishes the state, and returns how many requests are in flight.
func (p *publisher) publish() int {
	s := p.state()
	if p.dir != "" {
		err := s.Write(p.dir)
		if err != nil && !p.mute {
			p.logger.Warn("the state of the broker cannot be written", "error", err)
		}
		p.mute = err != nil
	}
	p.show(s)
	return s.Streams
}

// show sets the line of the unit after the begin and the end of a failure.
func (p *publisher) show(s *brokerstate.State) {
	now := brokerstate.Failure{}
	if f := s.Line.Failure; f != nil {
		now = brokerstate.Failure{Reason: f.Reason, Over: f.Over}
	}
	if now == p.shown {
		return
	}
	p.shown = now
	switch {
	case now.Over:
		p.logger.Info("the model endpoint answers again", "endpoint", s.Endpoint)
		p.status(p.ready)
	default:
		p.status(fmt.Sprintf("Cannot reach %s (%s): %s", s.Endpoint, now.Reason, upstream.Reason(now.Reason).Words()))
	}
}
