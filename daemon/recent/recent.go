// Package recent has the last requests of the API, and its numbers of the last half hour, in memory alone. Both outlive
// a reload.
package recent

import (
	"context"
	"sync"
	"time"

	"codex-proxy/probes"
)

const (
	// Period is the length of one point.
	Period = 10 * time.Second
	// maxPoints are half an hour.
	maxPoints = 180
	// maxRequests are about 200 KiB.
	maxRequests = 500
	// maxOutside bounds the requests that were not let in.
	maxOutside = 50
	// lookPause bounds how often the end of a request has the workers looked at.
	lookPause = 100 * time.Millisecond
)

// Gauges are numbers of one moment.
type Gauges struct {
	Queue    int // requests that wait
	InFlight int // turns that run
}

// GaugesOf returns the numbers of a snapshot.
func GaugesOf(s probes.Snapshot) (g Gauges) {
	g.Queue = s.Queue.Depth
	for _, w := range s.Workers {
		g.InFlight += w.Inflight
	}
	return g
}

// Settings configure a Recent.
type Settings struct {
	Look     func() Gauges
	Restarts func() uint64 // of all workers, ever
	Changed  func()        // readers have something to read; it must not block
}

// History is the numbers of the last half hour, oldest first.
type History struct {
	PeriodS int     `json:"period_s"`
	Points  []Point `json:"points"`
}

// Recent has the last requests and the numbers of the last half hour. It is safe for concurrent use.
type Recent struct {
	settings Settings

	mu       sync.Mutex // guards the rest
	number   uint64     // of the last request
	requests rings
	points   []sample // oldest first
	looked   time.Time
	restarts uint64 // at the last look at them
	epoch    uint64 // changes when requests or points of another process were taken over
	forward  func(Request)
}

// New returns a Recent that has nothing yet.
func New(s Settings) *Recent { return &Recent{settings: s, requests: newRings()} }

// Add takes over a request that has ended.
func (r *Recent) Add(req Request) {
	r.mu.Lock()
	r.add(req)
	forward := r.forward
	look := req.At.Sub(r.looked) >= lookPause
	if look {
		r.looked = req.At
	}
	r.mu.Unlock()
	if look {
		r.look(req.At, r.settings.Look())
	}
	if forward != nil {
		forward(req)
	}
	r.settings.Changed()
}

// add is called under the lock.
func (r *Recent) add(req Request) {
	r.number++
	req.Number = r.number
	r.requests.add(req)
	r.point(req.At).add(req)
}

// point is the point of a time, or the last one if the clock was set back. It is called under the lock.
func (r *Recent) point(at time.Time) *sample {
	at = at.UTC().Truncate(Period)
	if n := len(r.points); n > 0 && !at.After(r.points[n-1].At) {
		return r.earlier(at)
	}
	from := at.Add(-(maxPoints - 1) * Period)
	if n := len(r.points); n == 0 {
		from = at
	} else if next := r.points[n-1].At.Add(Period); next.After(from) {
		from = next
	}
	for t := from; !t.After(at); t = t.Add(Period) {
		if len(r.points) == maxPoints {
			r.points = append(r.points[:0], r.points[1:]...)
		}
		r.points = append(r.points, sample{Point: Point{At: t}})
	}
	return &r.points[len(r.points)-1]
}

// earlier is the point of a time that is not after the last one. It is called under the lock.
func (r *Recent) earlier(at time.Time) *sample {
	for i := range r.points {
		if r.points[i].At.Equal(at) {
			return &r.points[i]
		}
	}
	return &r.points[len(r.points)-1]
}

// look counts a moment.
func (r *Recent) look(at time.Time, g Gauges) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.point(at).look(g)
}

// Run looks at the workers each ten seconds until ctx ends.
func (r *Recent) Run(ctx context.Context) error {
	r.mu.Lock()
	r.restarts = r.settings.Restarts()
	r.mu.Unlock()
	for {
		now := time.Now()
		next := time.NewTimer(now.Truncate(Period).Add(Period).Sub(now))
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return nil
		}
		r.sample()
		r.settings.Changed()
	}
}

// sample ends a point and begins the next one.
func (r *Recent) sample() {
	gauges, restarts := r.settings.Look(), r.settings.Restarts()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.point(time.Now())
	p.look(gauges)
	if restarts > r.restarts { // a worker that is gone takes its count along
		p.Restarts += restarts - r.restarts
	}
	r.restarts, r.looked = restarts, time.Now()
}
