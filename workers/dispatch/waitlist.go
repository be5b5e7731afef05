package dispatch

import "slices"

// waitList is the order in which waiting requests are served: lost turns first, the
// oldest request ahead; then one request of each waiting key after the other,
// within a key the oldest first.
type waitList struct {
	again []*waiter            // lost turns
	keys  []string             // keys that wait, the next to be served first
	byKey map[string][]*waiter // of each of keys; never empty
}

func (l *waitList) all(yield func(*waiter) bool) {
	for _, w := range l.again {
		if !yield(w) {
			return
		}
	}
	for _, key := range l.keys {
		for _, w := range l.byKey[key] {
			if !yield(w) {
				return
			}
		}
	}
}

func (l *waitList) empty() bool { return len(l.again) == 0 && len(l.keys) == 0 }

func (l *waitList) depth() int {
	n := len(l.again)
	for _, waiters := range l.byKey {
		n += len(waiters)
	}
	return n
}

func (l *waitList) add(w *waiter) {
	if w.ask.again() {
		older := func(a, b *waiter) int { return a.ask.Arrived.Compare(b.ask.Arrived) }
		at, _ := slices.BinarySearchFunc(l.again, w, older)
		l.again = slices.Insert(l.again, at, w)
		return
	}
	key := w.ask.Key
	if len(l.byKey[key]) == 0 {
		l.keys = append(l.keys, key)
	}
	l.byKey[key] = append(l.byKey[key], w)
}

// before is the request of the same key right before w, which was just added; nil for a
// lost turn, and for the first of its key.
func (l *waitList) before(w *waiter) *waiter {
	waiters := l.byKey[w.ask.Key]
	if w.ask.again() || len(waiters) < 2 {
		return nil
	}
	return waiters[len(waiters)-2]
}

func (l *waitList) remove(w *waiter) {
	is := func(other *waiter) bool { return other == w }
	if w.ask.again() {
		l.again = slices.DeleteFunc(l.again, is)
		return
	}
	key := w.ask.Key
	l.byKey[key] = slices.DeleteFunc(l.byKey[key], is)
	if len(l.byKey[key]) == 0 {
		delete(l.byKey, key)
		l.removeKey(key)
	}
}

// rotate puts a key that was served behind the others that wait.
func (l *waitList) rotate(key string) {
	if len(l.byKey[key]) > 0 {
		l.removeKey(key)
		l.keys = append(l.keys, key)
	}
}

func (l *waitList) removeKey(key string) {
	l.keys = slices.DeleteFunc(l.keys, func(other string) bool { return other == key })
}

// victim is the newest request of the key that has the most waiting, of the
// newcomer's key if there are several: a key that floods the queue loses its own
// requests, not the requests of others.
func (l *waitList) victim(newcomer *waiter) *waiter {
	longest := l.byKey[newcomer.ask.Key]
	for _, key := range l.keys {
		if waiters := l.byKey[key]; len(waiters) > len(longest) {
			longest = waiters
		}
	}
	return longest[len(longest)-1]
}
