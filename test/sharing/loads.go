package sharing

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Load chooses the host of a request, by the time and a random number below 1.
type Load struct {
	Name  string
	Host  func(hosts int, at time.Duration, random float64) int
	Burst bool // all requests of a minute and a half at once, every minute
	Dies  bool // the first host is lost
}

// moves is how often the clients move to another host.
const moves = 20 * time.Second

func even(hosts int, _ time.Duration, random float64) int { return int(random * float64(hosts)) }

// Loads are the six kinds of load.
var Loads = []Load{
	{Name: "one host", Host: func(int, time.Duration, float64) int { return 0 }},
	{Name: "even", Host: even},
	{Name: "skewed", Host: func(hosts int, at time.Duration, random float64) int { // most on the first hosts
		return even(hosts, at, random*random*random)
	}},
	{Name: "moving", Host: func(hosts int, at time.Duration, _ float64) int { return int(at/moves) % hosts }},
	{Name: "bursts", Host: even, Burst: true},
	{Name: "a host dies", Host: even, Dies: true},
}

// Requests returns the requests of a load: a multiple of a rate in a second, for so long.
func (l Load) Requests(hosts int, rate float64, long, lasts time.Duration, seed uint64) (requests []Request) {
	random := rand.New(rand.NewPCG(seed, 2))
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	add := func(at time.Duration) {
		requests = append(requests, Request{at, l.Host(hosts, at, random.Float64()), second(lasts.Seconds() * random.ExpFloat64())})
	}
	for at := second(random.ExpFloat64() / rate); at < long; at += second(random.ExpFloat64() / rate) {
		if l.Burst { // the requests of a minute within its first seconds
			minute := at.Truncate(time.Minute)
			add(minute + (at-minute)/30)
			continue
		}
		add(at)
	}
	slices.SortStableFunc(requests, func(a, b Request) int { return int(a.At - b.At) })
	return requests
}
