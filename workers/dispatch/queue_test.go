package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
)

// stage is a dispatcher whose slots the test gives out itself.
type stage struct {
	*Dispatcher
	free    map[string]int // slots by model
	verdict error          // why there is none
	order   []string       // the requests that got one
}

func newStage(q Queue) *stage {
	s := &stage{Dispatcher: New(q, NewPicker(nil, nil), func() {}), free: map[string]int{}, verdict: ErrBusy}
	s.queue = newQueue(q, func(a Ask) (*Lease, error) {
		if !errors.Is(s.verdict, ErrBusy) || s.free[a.Model] == 0 || len(a.Avoid) > 0 {
			return nil, s.verdict
		}
		s.free[a.Model]--
		return &Lease{Worker: a.Model, release: func() {}}, nil
	})
	return s
}

// give frees n slots for model m one after the other.
func (s *stage) give(n int) {
	for range n {
		s.queue.mu.Lock()
		s.free["m"]++
		s.queue.mu.Unlock()
		s.queue.wake()
		synctest.Wait()
	}
}

func (s *stage) refuse(verdict error) {
	s.queue.mu.Lock()
	s.verdict = verdict
	s.queue.mu.Unlock()
	s.queue.wake()
}

// arrive makes a request wait, and records when it gets its slot.
func (s *stage) arrive(name string, a Ask) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := s.Acquire(context.Background(), a)
		if err == nil {
			s.queue.mu.Lock() // several may get theirs at once
			s.order = append(s.order, name)
			s.queue.mu.Unlock()
		}
		ended <- err
	}()
	synctest.Wait()
	return ended
}

func lostLease() *Lease { return &Lease{release: func() {}} }

func (s *stage) depth() int {
	depth, _ := s.queue.look(time.Now())
	return depth
}

func TestQueueIsFairBetweenKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: time.Minute, ReadyTimeout: time.Minute})
		for i := range 4 {
			s.arrive(fmt.Sprintf("a%d", i), Ask{Model: "m", Key: "a"})
		}
		for i := range 2 {
			s.arrive(fmt.Sprintf("b%d", i), Ask{Model: "m", Key: "b"})
		}
		s.arrive("nameless", Ask{Model: "m"})
		s.give(3)
		s.arrive("c0", Ask{Model: "m", Key: "c"})
		s.give(5)
		assert.Equal(t, []string{"a0", "b0", "nameless", "a1", "b1", "c0", "a2", "a3"}, s.order)
		assert.Zero(t, s.depth())
		assert.Empty(t, s.queue.keys)
		assert.Empty(t, s.queue.byKey)
	})
}

func TestQueueServesLostTurnsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 1, Timeout: time.Minute, ReadyTimeout: time.Minute})
		born := time.Now()
		s.arrive("new", Ask{Model: "m", Key: "a"})
		for _, n := range []int{2, 0, 1} { // past the limit, and in the order of their arrival
			arrived := born.Add(time.Duration(n))
			s.arrive(fmt.Sprintf("lost%d", n), Ask{Model: "m", Key: "a", Lost: lostLease(), Arrived: arrived})
		}
		a := Ask{Model: "m", Lost: lostLease(), Arrived: born.Add(-1), Avoid: []*appserver.Conn{nil}}
		avoids := s.arrive("avoids", a)
		assert.Equal(t, 5, s.depth())
		s.give(4)
		assert.Equal(t, []string{"lost0", "lost1", "lost2", "new"}, s.order,
			"a request that cannot be served holds up no other")
		synctest.Wait()
		<-time.After(time.Minute)
		assert.ErrorIs(t, <-avoids, ErrBusy)
	})
}

func TestNoRequestOvertakesForTheSameModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: time.Minute, ReadyTimeout: time.Minute})
		s.arrive("first", Ask{Model: "m", Key: "a"})
		s.queue.mu.Lock()
		s.free["m"] = 1 // a slot that has not woken the queue yet
		s.queue.mu.Unlock()
		s.arrive("second", Ask{Model: "m", Key: "b"})
		assert.Equal(t, []string{"first"}, s.order)
		s.free["n"] = 1
		s.arrive("other model", Ask{Model: "n", Key: "a"})
		assert.Equal(t, []string{"first", "other model"}, s.order, "it does not wait for another model's slot")
		s.give(1)
		assert.Equal(t, []string{"first", "other model", "second"}, s.order)
	})
}

func TestQueueDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: 10 * time.Second, ReadyTimeout: 10 * time.Second})
		began := time.Now()
		ended := s.arrive("a", Ask{Model: "m"})
		<-time.After(4 * time.Second)
		_, oldest := s.queue.look(time.Now())
		assert.Equal(t, 4*time.Second, oldest)
		assert.ErrorIs(t, <-ended, ErrBusy)
		assert.Equal(t, 10*time.Second, time.Since(began))
		s.refuse(ErrNotReady)
		assert.ErrorIs(t, <-s.arrive("b", Ask{Model: "m"}), ErrNotReady)
		assert.Equal(t, 20*time.Second, time.Since(began))
		assert.Zero(t, s.depth())
	})
}

// A request waits long for the end of other turns, and shortly for a worker that is away.
// The time without a worker counts anew after one was ready.
func TestBusyAndAbsentWorkersHaveBoundsOfTheirOwn(t *testing.T) {
	bounds := Queue{Limit: 64, Timeout: 5 * time.Minute, ReadyTimeout: 10 * time.Second}
	for name, tc := range map[string]struct {
		verdicts []error // of a worker, 9 s each; the last stays
		want     error
		after    time.Duration
	}{
		"busy":                      {[]error{ErrBusy}, ErrBusy, 5 * time.Minute},
		"busy with images":          {[]error{ErrDecoding}, ErrDecoding, 5 * time.Minute},
		"away":                      {[]error{ErrAway}, ErrAway, 10 * time.Second},
		"not ready":                 {[]error{ErrNotReady}, ErrNotReady, 10 * time.Second},
		"away, then without model":  {[]error{ErrAway, ErrNotReady}, ErrNotReady, 10 * time.Second},
		"lost after a wait":         {[]error{ErrBusy, ErrBusy, ErrAway}, ErrAway, 28 * time.Second},
		"back after a restart":      {[]error{ErrAway, ErrBusy}, ErrBusy, 5 * time.Minute},
		"back, and lost once more":  {[]error{ErrAway, ErrBusy, ErrAway}, ErrAway, 28 * time.Second},
		"a restart in a long queue": {[]error{ErrBusy, ErrAway, ErrBusy}, ErrBusy, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(bounds)
				s.verdict = tc.verdicts[0]
				began := time.Now()
				ended := s.arrive("a", Ask{Model: "m"})
				for _, verdict := range tc.verdicts[1:] {
					<-time.After(9 * time.Second)
					s.refuse(verdict)
				}
				assert.ErrorIs(t, <-ended, tc.want)
				assert.Equal(t, tc.after, time.Since(began))
				assert.Zero(t, s.depth())
			})
		})
	}
}

// The bound of the whole wait also holds without a worker.
func TestTheWholeWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: time.Second, ReadyTimeout: time.Minute})
		s.verdict = ErrAway
		began := time.Now()
		assert.ErrorIs(t, <-s.arrive("a", Ask{Model: "m"}), ErrAway)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// A burst of one key has the whole queue. When another key waits, the two alternate.
func TestOneKeyMayFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 1000, Timeout: time.Minute, ReadyTimeout: time.Minute})
		burst := make([]<-chan error, 1000)
		for i := range burst {
			burst[i] = s.arrive("a", Ask{Model: "m", Key: "a"})
		}
		assert.Equal(t, len(burst), s.depth())
		other := s.arrive("b", Ask{Model: "m", Key: "b"})
		assert.ErrorIs(t, <-burst[999], ErrQueueFull, "its newest request makes room for the other key")
		s.give(2)
		assert.Equal(t, []string{"a", "b"}, s.order)
		require.NoError(t, <-other)
		s.give(998)
		for _, ended := range burst[:999] {
			require.NoError(t, <-ended)
		}
		assert.Zero(t, s.depth())
	})
}

// A waiting request reports its silence, and leaves the queue if that fails.
func TestSilenceInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: time.Hour, ReadyTimeout: time.Hour})
		gone, calls := errors.New("gone"), 0
		began := time.Now()
		ended := s.arrive("a", Ask{Model: "m", Keepalive: 15 * time.Second, OnSilence: func() error {
			if calls++; calls == 3 {
				return gone
			}
			return nil
		}})
		assert.ErrorIs(t, <-ended, gone)
		assert.Equal(t, 45*time.Second, time.Since(began))
		assert.Zero(t, s.depth())
		s.arrive("next", Ask{Model: "m"})
		s.give(1)
		assert.Equal(t, []string{"next"}, s.order)
	})
}

func TestFinalRefusalsComeAtOnce(t *testing.T) {
	for _, verdict := range []error{ErrDraining, ErrNoModel, ErrGivenUp} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(Queue{Limit: 64, Timeout: time.Minute, ReadyTimeout: time.Minute})
			began := time.Now()
			waiting := s.arrive("waits", Ask{Model: "m", Key: "a"})
			again := s.arrive("waits again", Ask{Model: "m", Lost: lostLease()})
			s.refuse(verdict)
			assert.ErrorIs(t, <-waiting, verdict)
			assert.ErrorIs(t, <-again, verdict)
			assert.ErrorIs(t, <-s.arrive("comes", Ask{Model: "m"}), verdict)
			assert.Zero(t, time.Since(began))
			assert.Zero(t, s.depth())
		})
	}
}

// away is a worker that starts.
type away struct{ Worker }

func (away) Name() string              { return "a" }
func (away) Paused() bool              { return false }
func (away) Load() int                 { return 0 }
func (away) Lease(Ask) (*Lease, error) { return nil, ErrAway }

// A lost turn waits through a drain. The requests behind it do not.
func TestDrainRefusesBehindALostTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: time.Minute, ReadyTimeout: time.Minute})
		s.queue.pick = s.picker.Pick
		s.picker.workers = []Worker{away{}}
		lost := s.arrive("lost", Ask{Model: "m", Lost: lostLease()})
		fresh := s.arrive("fresh", Ask{Model: "m"})
		require.Equal(t, 2, s.depth())
		began := time.Now()
		s.Drain()
		require.ErrorIs(t, <-fresh, ErrDraining)
		assert.Zero(t, time.Since(began))
		assert.Equal(t, 1, s.depth())
		assert.ErrorIs(t, <-lost, ErrNotReady)
	})
}

func TestEndedRequestLeavesTheQueueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: time.Minute, ReadyTimeout: time.Minute})
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, Ask{Model: "m"})
			ended <- err
		}()
		synctest.Wait()
		require.Equal(t, 1, s.depth())
		cancel(gone)
		assert.ErrorIs(t, <-ended, gone)
		assert.Zero(t, s.depth())
		s.arrive("next", Ask{Model: "m"})
		s.give(1)
		assert.Equal(t, []string{"next"}, s.order, "no slot is lost to the ended request")
	})
}

// A slot that is given at the very end of a request is released.
func TestSlotForAnEndedRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	released := false
	_, err := unlessEnded(ctx, answer{lease: &Lease{release: func() { released = true }}})
	assert.ErrorIs(t, err, context.Canceled)
	assert.True(t, released)
	_, err = unlessEnded(ctx, answer{err: ErrBusy})
	assert.ErrorIs(t, err, context.Canceled)
	lease := &Lease{}
	got, err := unlessEnded(t.Context(), answer{lease: lease})
	require.NoError(t, err)
	assert.Same(t, lease, got)
}

// A key that floods the queue loses its own newest requests.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 3, Timeout: time.Minute, ReadyTimeout: time.Minute})
		s.arrive("a0", Ask{Model: "m", Key: "a"})
		s.arrive("a1", Ask{Model: "m", Key: "a"})
		a2 := s.arrive("a2", Ask{Model: "m", Key: "a"})
		assert.ErrorIs(t, <-s.arrive("a3", Ask{Model: "m", Key: "a"}), ErrQueueFull)
		s.arrive("b0", Ask{Model: "m", Key: "b"})
		assert.ErrorIs(t, <-a2, ErrQueueFull)
		assert.ErrorIs(t, <-s.arrive("b1", Ask{Model: "m", Key: "b"}), ErrQueueFull, "a has no more than b would have")
		s.give(3)
		assert.Equal(t, []string{"a0", "b0", "a1"}, s.order)
		s.verdict = ErrNotReady
		for range 3 {
			s.arrive("x", Ask{Model: "m"})
		}
		err := <-s.arrive("x", Ask{Model: "m"})
		assert.ErrorIs(t, err, ErrNotReady, "the refusal is no fault of the client")
		s.refuse(ErrDraining)
		synctest.Wait()
	})
}

// With thousands that wait, a request that comes or goes must not have all others tried again.
func TestALongQueueIsNotTriedAgain(t *testing.T) {
	tried := 0
	q := newQueue(Queue{Limit: 3, Timeout: time.Minute, ReadyTimeout: time.Minute}, func(Ask) (*Lease, error) {
		tried++
		return nil, ErrBusy
	})
	first := q.enter(Ask{Model: "m", Key: "a"})
	q.enter(Ask{Model: "n", Key: "a"})
	q.enter(Ask{Model: "n", Key: "b"})
	tried = 0
	late := q.enter(Ask{Model: "n", Key: "b"})
	assert.ErrorIs(t, (<-late.answer).err, ErrQueueFull, "it has the reason of the one before it")
	assert.True(t, q.leave(first))
	assert.Zero(t, tried)
	other := q.enter(Ask{Model: "m", Key: "b"})
	assert.Equal(t, 2, tried, "each kind, once")
	assert.ErrorIs(t, other.verdict, ErrBusy)
}

func TestPace(t *testing.T) {
	var p holdTime
	assert.Zero(t, p.mean())
	p.add(time.Second)
	assert.Equal(t, time.Second, p.mean())
	for range 100 {
		p.add(3 * time.Second)
	}
	assert.InDelta(t, 3*time.Second, p.mean(), float64(50*time.Millisecond))
}

// A turn that moves from a worker to the queue while they are counted would be missed,
// and a drain would end before it.
func TestInflightCountsWorkersAndQueueAtOnce(t *testing.T) {
	d := New(Queue{Limit: 64, Timeout: time.Minute, ReadyTimeout: time.Minute}, NewPicker(nil, nil), func() {})
	assert.Equal(t, 1, d.Inflight(func() int {
		assert.False(t, d.queue.mu.TryLock(), "the queue is locked while the workers are counted")
		return 1
	}))
}

// Another process of the service, which has the slots, has to know that a request waits.
func TestWaitingIsAChange(t *testing.T) {
	var d Dispatcher
	var waiting []int
	d.onChange = func() { waiting = append(waiting, d.Waiting()) }
	bounds := Queue{Limit: 1, Timeout: time.Millisecond, ReadyTimeout: time.Millisecond}
	d.queue = newQueue(bounds, func(Ask) (*Lease, error) { return nil, ErrBusy })
	_, err := d.Acquire(t.Context(), Ask{})
	assert.ErrorIs(t, err, ErrBusy)
	assert.Equal(t, []int{1, 0}, waiting)
}

// A request whose conversation may not rotate yet waits until it may, and nothing else
// wakes it; requests of the same key behind it do not wait for it.
func TestQueueHoldsAConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: 5 * time.Minute, ReadyTimeout: time.Second})
		until := time.Now().Add(time.Minute)
		pick := s.queue.pick
		s.queue.pick = func(a Ask) (*Lease, error) {
			if a.Conversation != "" && time.Now().Before(until) {
				return nil, &heldError{until}
			}
			return pick(a)
		}
		held := s.arrive("held", Ask{Model: "m", Key: "a", Conversation: "1"})
		again := s.arrive("again", Ask{Model: "m", Key: "a", Conversation: "1", Lost: lostLease()})
		late := s.arrive("late", Ask{Model: "m", Key: "a", Conversation: "2"})
		s.free["m"] = 4
		other := s.arrive("other", Ask{Model: "m", Key: "a"})
		require.NoError(t, <-other)
		for _, ended := range []<-chan error{held, again, late} {
			require.NoError(t, <-ended)
		}
		assert.Equal(t, until, time.Now(), "past ready_timeout")
	})
}

// queue_timeout bounds the wait.
func TestQueueHoldsNoConversationForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Queue{Limit: 64, Timeout: 10 * time.Second, ReadyTimeout: time.Second})
		began := time.Now()
		s.verdict = &heldError{began.Add(time.Minute)}
		err := <-s.arrive("held", Ask{Model: "m"})
		assert.ErrorIs(t, err, ErrHeld)
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}
