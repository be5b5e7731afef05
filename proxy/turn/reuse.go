package turn

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
)

// threads keeps the threads of answered requests loaded on their workers. A request that continues the history of such
// a thread runs there: the model endpoint's prompt cache identifies a thread by its id. A history that differs by a
// byte starts a thread of its own.
//
// A thread with a turn is not in here. A thread costs its worker about 2 MiB.
type threads struct {
	limit int // 0: nothing is kept

	mu     sync.Mutex
	byKey  map[threadKey]*list.Element
	oldest list.List // of *keptThread; the one unused for longest is in front
}

// threadKey is the hash of everything that a thread was given.
type threadKey [sha256.Size]byte

type keptThread struct {
	key    threadKey
	thread *appserver.Thread
	conn   *appserver.Conn // of the thread
	worker string
}

func newThreads(limit int) *threads {
	return &threads{limit: limit, byKey: map[threadKey]*list.Element{}}
}

// continuation has the keys by which a request finds the kept thread that it continues.
type continuation struct {
	threads *threads
	keys    []threadKey // keys[n] stands for the request with its first n items
}

// continuation computes the keys of a request, and returns the worker that has the thread
// with the longest part of it; empty if no thread has any. Threads are not shared between
// API keys.
func (ts *threads) continuation(apiKey string, r *appserver.TurnRequest) (c *continuation, worker string) {
	c = &continuation{threads: ts}
	if ts.limit == 0 {
		return c, ""
	}
	kind := r.Fingerprint()
	c.keys = append(make([]threadKey, 0, len(r.Items)+2), sha256.Sum256(append(kind[:], apiKey...)))
	for _, item := range r.Items {
		key := c.keys[len(c.keys)-1]
		if !isReasoning(item) { // the thread keeps its own
			key = key.then(item)
		}
		c.keys = append(c.keys, key)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if _, found := c.find(nil); found != nil {
		worker = found.worker
	}
	return c, worker
}

// isReasoning recognises an history.Reasoning by its first bytes.
func isReasoning(item history.Item) bool {
	return bytes.HasPrefix(item, []byte(`{"type":"reasoning"`))
}

// then is the key with one more item.
func (k threadKey) then(item history.Item) (next threadKey) {
	h := sha256.New()
	h.Write(k[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(item))))
	h.Write(item)
	h.Sum(next[:0])
	return next
}

// acquire hands over the thread on conn with the longest part of the request, and
// how many of the items the thread has; nil if no thread has any.
func (c *continuation) acquire(conn *appserver.Conn) (known int, thread *appserver.Thread) {
	c.threads.mu.Lock()
	defer c.threads.mu.Unlock()
	n, found := c.find(conn)
	if found == nil {
		return 0, nil
	}
	c.threads.remove(c.threads.byKey[found.key])
	return n, found.thread
}

// find is called under the lock. A nil conn is any connection. A thread that has all
// items of the request has nothing to answer, and does not count.
func (c *continuation) find(conn *appserver.Conn) (known int, found *keptThread) {
	for n := len(c.keys) - 2; n > 0; n-- {
		e := c.threads.byKey[c.keys[n]]
		if e == nil {
			continue
		}
		kept := e.Value.(*keptThread)
		if kept.conn.Err() == nil && (conn == nil || kept.conn == conn) {
			return n, kept
		}
	}
	return 0, nil
}

// keep stores the thread of the turn under the request and its answer, instead of
// closing the turn; false if it cannot.
func (c *continuation) keep(answer []history.Item, turn *appserver.Turn, worker string) bool {
	if len(answer) == 0 || len(c.keys) == 0 {
		return false
	}
	thread := turn.Keep()
	if thread == nil {
		return false
	}
	key := c.keys[len(c.keys)-1]
	for _, item := range answer {
		key = key.then(item)
	}
	for _, surplus := range c.threads.add(&keptThread{key, thread, thread.Conn(), worker}) {
		surplus.Close()
	}
	return true
}

// drop closes the threads that the worker has of the conversation.
func (c *continuation) drop(worker string) {
	for _, thread := range c.on(worker) {
		thread.Close()
	}
}

// on hands over the threads that the worker has of the conversation.
func (c *continuation) on(worker string) (list []*appserver.Thread) {
	c.threads.mu.Lock()
	defer c.threads.mu.Unlock()
	for _, key := range c.keys {
		if e := c.threads.byKey[key]; e != nil && e.Value.(*keptThread).worker == worker {
			list = append(list, c.threads.remove(e))
		}
	}
	return list
}

// add returns the threads that have to go for the new one.
func (ts *threads) add(kept *keptThread) (surplus []*appserver.Thread) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if e := ts.byKey[kept.key]; e != nil { // the same was asked and answered twice
		surplus = append(surplus, ts.remove(e))
	}
	for e := ts.oldest.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*keptThread).conn.Err() != nil {
			ts.remove(e) // gone with its connection
		}
		e = next
	}
	ts.byKey[kept.key] = ts.oldest.PushBack(kept)
	for ts.oldest.Len() > ts.limit {
		surplus = append(surplus, ts.remove(ts.oldest.Front()))
	}
	return surplus
}

func (ts *threads) remove(e *list.Element) *appserver.Thread {
	kept := ts.oldest.Remove(e).(*keptThread)
	delete(ts.byKey, kept.key)
	return kept.thread
}
