package workerhands

import (
	"context"
	"sync"
	"time"
)

// stopBound bounds the end of all exec-servers at the end of the unit: below TimeoutStopSec=.
const stopBound = 20 * time.Second

// Run ends exec-servers and sessions when they are due, until ctx ends, and then all exec-servers.
func (s *Sessions) Run(ctx context.Context) {
	s.settle()
	for ctx.Err() == nil {
		timer := time.NewTimer(s.end(time.Now()))
		select {
		case <-timer.C:
		case <-s.changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	s.stop()
}

// settle ends the processes that an earlier process has left: codex cannot reach their exec-server.
func (s *Sessions) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.change != nil { // a turn was faster, and has done it
			continue
		}
		s.begin(one, closing, func(ctx context.Context, one *session) error {
			h, err := lifecycle{s}.handsOf(one)
			if err == nil {
				err = h.Settle(ctx)
			}
			return err
		})
	}
}

// end begins the ends that are due, and returns the time until the next one.
func (s *Sessions) end(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.Hands.Idle
	for _, one := range s.all {
		if !one.isIdle() {
			continue
		}
		unused := now.Sub(one.used)
		switch {
		case unused < 0:
			next = min(next, -unused)
		case one.OfTurn || unused >= s.Hands.Idle:
			s.begin(one, finishing, lifecycle{s}.finish)
		case one.hands != nil && unused >= s.rest:
			s.begin(one, closing, lifecycle{s}.close)
		case one.hands != nil:
			next = min(next, s.rest-unused, s.Hands.Idle-unused)
		default:
			next = min(next, s.Hands.Idle-unused)
		}
	}
	return next
}

// stop ends all exec-servers, and waits for the changes under way.
func (s *Sessions) stop() {
	s.mu.Lock()
	s.over = true
	running := make([]*session, 0, len(s.all))
	for _, one := range s.all {
		if one.hands != nil {
			running = append(running, one)
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	var ending sync.WaitGroup
	for _, one := range running {
		ending.Go(func() { // a turn that runs has it again at the same address
			if err := (lifecycle{s}).endServer(ctx, one); err != nil {
				s.Logger.Warn("hands do not end", "key", one.Key, "conversation", one.Name, "error", err)
			}
		})
	}
	ending.Wait()
	s.tasks.Wait()
}
