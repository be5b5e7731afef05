// Package sharing plays hosts that hold a limit together, in virtual time: the shares and the pool are those of the
// product, the clients, the network between them and the deaths of hosts are played. A seed gives the same run again.
package sharing

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"codex-proxy/proxy/limits/share"
)

const (
	lease    = 5 * time.Second
	patience = 100 * time.Millisecond
	rounds   = 2 // exchanges that a request waits for
)

// Request is a request of a client.
type Request struct {
	At    time.Duration
	Host  int
	Lasts time.Duration // of a limit of turns in flight
}

// Play is one run.
type Play struct {
	Hosts    int
	Limit    share.Limit
	Requests []Request // in the order of their times
	Seed     uint64
	Dies     time.Duration // when the first host is lost; 0: never
	Away     [2]time.Duration
}

// Result is what a run has admitted.
type Result struct {
	Admitted, Ideal int           // by the hosts, and by one host with the same requests
	Over            float64       // the most beyond the limit, as a part of it
	Waited          int           // requests that waited for an exchange
	Exchanges       int           // of all hosts
	Longest         time.Duration // wait of a request
}

// Used is the part of the limit that could be used.
func (r Result) Used() float64 { return float64(r.Admitted) / float64(max(1, r.Ideal)) }

// start is any time, at noon.
var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// host is one host.
type host struct {
	share   *share.Share
	entry   share.Entry
	inUse   float64
	last    time.Duration // when the last exchange began
	asking  bool
	planned bool // an exchange on demand is
	dead    bool
	waiting []*waiter
}

type waiter struct {
	Request
	exchanges int // that it has waited for
	begun     bool
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

type run struct {
	Play
	now    time.Duration
	queue  events
	seq    int
	random *rand.Rand
	hosts  []*host
	pool   share.Pool
	judge  judge
	result Result
}

// Run plays the requests.
func (p Play) Run() Result {
	r := &run{Play: p, random: rand.New(rand.NewPCG(p.Seed, 1)), pool: share.Pool{At: start}, judge: judge{limit: p.Limit}}
	for range p.Hosts {
		r.hosts = append(r.hosts, &host{share: share.New()})
	}
	for _, h := range r.hosts {
		h.share.Set(p.Limit)
		r.after(time.Duration(r.random.Float64()*float64(share.Period)), func() { r.regular(h) })
	}
	for _, request := range p.Requests {
		r.at(request.At, func() { r.arrive(request) })
	}
	if p.Dies > 0 {
		r.at(p.Dies, func() { r.die(r.hosts[0]) })
	}
	end := p.Requests[len(p.Requests)-1].At
	for len(r.queue) > 0 && r.queue[0].at <= end {
		next := heap.Pop(&r.queue).(event)
		r.now = next.at
		next.do()
	}
	r.result.Over, r.result.Ideal = r.judge.over, p.ideal()
	return r.result
}

func (r *run) at(at time.Duration, do func()) {
	r.seq++
	heap.Push(&r.queue, event{at, r.seq, do})
}

func (r *run) after(d time.Duration, do func()) { r.at(r.now+d, do) }

func (r *run) clock() time.Time { return start.Add(r.now) }

// regular is the exchange of each second.
func (r *run) regular(h *host) {
	if h.dead {
		return
	}
	r.after(time.Duration(float64(share.Period)*(0.9+0.2*r.random.Float64())), func() { r.regular(h) })
	r.exchange(h)
}

// demand makes an exchange on demand, a gap after the last one.
func (r *run) demand(h *host) {
	if h.planned || h.asking {
		h.planned = true
		return
	}
	h.planned = true
	r.at(max(r.now, h.last+share.Gap), func() {
		if h.planned {
			r.exchange(h)
		}
	})
}

func (r *run) exchange(h *host) {
	if h.dead || h.asking {
		return
	}
	h.asking, h.planned, h.last = true, false, r.now
	for _, w := range h.waiting {
		w.begun = true
	}
	ask, due := h.share.Ask(r.clock())
	r.result.Exchanges++
	way := func() time.Duration { return time.Duration((0.5 + 2*r.random.Float64()) * float64(time.Millisecond)) }
	if r.now >= r.Away[0] && r.now < r.Away[1] {
		r.after(patience, func() { r.lost(h) })
		return
	}
	var answer share.Answer
	r.after(way(), func() {
		if due {
			h.entry, answer = r.pool.Exchange("p", h.entry, ask, r.clock())
		}
	})
	r.after(3*time.Millisecond+way(), func() {
		h.asking = false
		if due {
			h.share.Answered(answer, r.Hosts, r.clock())
		}
		r.resume(h)
	})
}

// lost is the end of an exchange without an answer.
func (r *run) lost(h *host) {
	h.asking = false
	h.share.Away(r.Hosts, r.clock())
	r.resume(h)
}

func (r *run) resume(h *host) {
	waiting := h.waiting
	h.waiting = nil
	for _, w := range waiting {
		h.share.Go(1)
		if w.begun {
			w.exchanges++
		}
		r.try(h, w)
	}
	if h.planned {
		h.planned = false
		r.demand(h)
	}
}

func (r *run) arrive(request Request) {
	h := r.hosts[request.Host]
	if h.dead { // its clients go on elsewhere
		h = r.hosts[1+r.random.IntN(len(r.hosts)-1)]
	}
	h.share.Arrive(1, r.clock())
	r.try(h, &waiter{Request: request})
}

// slots reports whether the limit is of turns in flight.
func (p Play) slots() bool { return p.Limit.Refill == 0 && !p.Limit.Daily }

// try admits a request, has it wait, or refuses it, as limits.Shares does.
func (r *run) try(h *host, w *waiter) {
	switch {
	case h.share.Has(1, r.clock()):
		r.admit(h, w)
	case w.exchanges < rounds && h.share.Due(r.clock()):
		if w.exchanges == 0 {
			r.result.Waited++
		}
		w.begun = false
		h.share.Wait(1)
		h.waiting = append(h.waiting, w)
		r.demand(h)
	}
}

func (r *run) admit(h *host, w *waiter) {
	r.result.Admitted++
	r.result.Longest = max(r.result.Longest, r.now-w.At)
	r.judge.use(r.now)
	if !r.slots() {
		h.share.Use(1)
		return
	}
	h.inUse++
	h.share.Occupy(h.inUse)
	r.after(w.Lasts, func() {
		if h.dead {
			return // it has ended with its host
		}
		r.judge.free()
		h.inUse--
		h.share.Occupy(h.inUse)
		if h.share.Spare(r.clock()) {
			r.demand(h)
		}
	})
}

// die loses a host. Another one takes its share back when its lease is over.
func (r *run) die(h *host) {
	h.dead = true
	for range int(h.inUse) {
		r.judge.free()
	}
	r.after(lease+share.Period, func() { h.entry = r.pool.TakeBack(h.entry) })
}
