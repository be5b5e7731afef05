package limits

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"codex-proxy/proxy/limits/share"
)

// Ask is an ask of the pool of one limit of an API key.
type Ask struct {
	Key, Kind string // Kind is the name of the limit
	share.Ask
}

// Wake has a token if the next exchange must not wait.
func (s *Shares) Wake() <-chan struct{} { return s.wake }

// Asks begins an exchange: it returns at most so many asks, in the order of keys and kinds, so that exchanges of
// several hosts wait for each other in one direction. If there are more, the next exchange begins with these.
func (s *Shares) Asks(most int) (asks []Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	select {
	case <-s.wake: // for this exchange
	default:
	}
	names := slices.Sorted(maps.Keys(s.keys))
	first, _ := slices.BinarySearch(names, s.after+"\x00") // of those behind it
	s.after = ""
	for _, name := range slices.Concat(names[first:], names[:first]) {
		if len(asks)+len(sharedKinds) > most {
			s.after = asks[len(asks)-1].Key
			break
		}
		asks = append(asks, s.asksOf(name)...)
	}
	slices.SortFunc(asks, func(a, b Ask) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Kind, b.Kind))
	})
	return asks
}

// asksOf returns the asks of one key. A key that is not used is forgotten.
func (s *Shares) asksOf(name string) (asks []Ask) {
	k, now := s.keys[name], time.Now()
	for kind, one := range k.kinds {
		if ask, due := one.Ask(now); due {
			asks = append(asks, Ask{name, kind, ask})
		}
	}
	if len(asks) == 0 && k.running == 0 && k.elsewhere == 0 {
		delete(s.keys, name)
	}
	return asks
}

// Answered ends an exchange with the answers to its asks.
func (s *Shares) Answered(asks []Ask, answers []share.Answer, hosts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i, ask := range asks {
		if k := s.keys[ask.Key]; k != nil && k.kinds[ask.Kind] != nil {
			k.kinds[ask.Kind].Answered(answers[i], hosts, now)
		}
	}
	s.hosts, s.away, s.answered = max(1, hosts), false, s.asked
	s.end()
}

// Leave ends an exchange without an answer: until the next one nobody waits for the pool.
func (s *Shares) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
}

// leave is called under the lock.
func (s *Shares) leave() {
	s.away = true
	for _, k := range s.keys {
		for _, one := range k.kinds {
			one.Away(s.hosts, time.Now())
		}
	}
	s.end()
}

// end has the requests go on that wait for an exchange. It is called under the lock.
func (s *Shares) end() {
	close(s.ended)
	s.ended = make(chan struct{})
}
