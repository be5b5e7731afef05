package turn

import (
	"cmp"
	"context"
	"errors"
	"time"

	"codex-proxy/codex/turnerror"
	"codex-proxy/internal/cause"
	"codex-proxy/proxy/traces"
	"codex-proxy/workers/dispatch"
)

// maxAttempts bounds how often a request runs: a request that kills its workers must
// not kill all of them.
const maxAttempts = 3

// heavyImages is the number of bytes of images from which the request itself is the reason if its worker does not start
// the turn in time: codex needs seconds to decode the images, and would need them again on the next worker. A worker
// decodes twice as much at a time, which leaves room for other requests.
const heavyImages = 256 << 20

// run is a turn on its way through its attempts. It belongs to the goroutine of Run.
type run struct {
	*Runner
	Request
	sink Sink

	ask          dispatch.Ask
	continuation *continuation
	before       string // the worker with the conversation's thread, before the turn
	lease        *dispatch.Lease
	losses       int // attempts that were lost
	faults       int // attempts that a new codex has failed
	output       output
	fault        turnerror.AccountFault // of the attempt's account
	estimate     estimate               // of the attempt
	refused      error                  // of the last account that refused the model; nil: none did
	span         *traces.Span           // of the attempt
	stay         *Stay                  // of the attempt; nil: its worker has no hands
	unserved     error                  // of the last worker that had no session for the turn; nil: none lacked one
}

// Run runs a turn and delivers it to the sink. It runs the turn again, ahead of the queue, each time it is lost while
// no output of the model has been sent to the client, the model has called no tool, and attempts are left; it also runs
// it on another account each time it is refused for quota, if the policy of the accounts rotates. It returns nil when
// sink.Finish has, and otherwise the result of sink.Fail for the cause of ctx when ctx ended first, for one of the
// errors of this package, of workers or of appserver, or for the sink's own error.
func (r *Runner) Run(ctx context.Context, request Request, sink Sink) error {
	t := r.newRun(request, sink)
	defer func() { t.lease.Release() }()
	if err := t.attempts(ctx); err != nil {
		t.charge(ctx, err)
		return sink.Fail(ctx, err)
	}
	return nil
}

// attempts runs the turn until it neither was lost nor refused for quota, or may not run
// again.
func (t *run) attempts(ctx context.Context) error {
	for {
		if err := t.acquire(ctx); err != nil {
			return withRefusal(err, t.refused)
		}
		err := t.attempt(ctx)
		end := t.judge(err)
		t.observe(ctx, err, end)
		if end.lost == lostStart && t.Decoding >= heavyImages {
			return ErrImagesTimeout
		}
		if !end.again {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.reset(end, err)
	}
}

// ending is how an attempt ended.
type ending struct {
	lost     string // the reason of a loss; empty: not lost
	again    bool   // the turn runs again
	unserved bool   // the worker had no session for it
}

// judge decides whether an attempt was lost, and whether the turn runs again.
func (t *run) judge(err error) (end ending) {
	if end.lost = lossReason(err); end.lost == "" && brokerLost(t, err) {
		end.lost = lostBroker
	}
	if end.lost != "" {
		if codexFault(err) != "" && t.onProbation() {
			t.faults++
		} else {
			t.losses++
		}
		end.again = t.output.repeatable() && t.losses < maxAttempts && t.faults < maxFaults
		return end
	}
	if end.again = t.fault.Rotates() && t.mayRotate(); end.again {
		return end
	}
	if end.unserved = mayStayElsewhere(t, err); end.unserved {
		end.again = true
		return end
	}
	if t.onProbation() && codexFault(err) != "" {
		end.lost = lostFault
		t.faults++
		end.again = t.output.repeatable() && t.faults < maxFaults
	}
	return end
}

// maxFaults bounds how often a request runs on a new codex that fails: more faults than lead back to the one before.
const maxFaults = 6

func (t *run) onProbation() bool { return t.Codexes != nil && t.Codexes.OnProbation(t.lease.Worker) }

func (r *Runner) newRun(request Request, sink Sink) *run {
	if request.Report == nil {
		request.Report = &Report{}
	}
	continuation, prefer := r.threads.continuation(request.owner(), request.Turn)
	t := &run{Runner: r, Request: request, sink: sink, continuation: continuation, before: prefer}
	t.ask = dispatch.Ask{
		Model: request.Turn.Model, Key: request.Key, Arrived: request.Arrived, Decoding: request.Decoding,
		Prefer: cmp.Or(request.Prefer, prefer), Accounts: request.Accounts, Keepalive: r.Keepalive,
	}
	if request.BreakSilence {
		t.ask.OnSilence = sink.Silence
	}
	if r.rotates {
		t.ask.Conversation = request.conversation()
	}
	return t
}

// reset prepares the next attempt.
func (t *run) reset(end ending, err error) {
	switch {
	case end.lost != "":
		t.lose(end.lost)
	case end.unserved:
		stayElsewhere(t, err)
	default:
		t.rotate(err)
	}
	t.ask.Lost = t.lease
	t.Report.FirstText = time.Time{}
	t.Report.Usage, t.output.items, t.fault, t.estimate = nil, nil, turnerror.NoFault, estimate{}
}

// lose records a loss.
func (t *run) lose(reason string) {
	t.metrics.retries.WithLabelValues(reason).Inc()
	t.Logger.Info("turn lost, it runs again",
		"request_id", t.ID, "worker", t.Report.Worker, "reason", reason, "attempt", t.Report.Attempts)
	// other workers than those are about to stop, or change to another codex
	if reason != lostOverloaded && reason != lostInterrupted && reason != lostBroker && reason != lostFault {
		t.ask.Avoid = append(t.ask.Avoid, t.lease.Conn)
		if reason != lostStart { // that codex lives
			t.ask.LostCodexes = append(t.ask.LostCodexes, t.lease.Codex)
		}
	}
}

// attempt runs the turn once, on the worker of the lease.
func (t *run) attempt(ctx context.Context) (err error) {
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.leave()
	turn, err := t.start(ctx)
	if err != nil {
		if errors.Is(err, ErrStartTimeout) {
			t.lease.Suspect()
		}
		return cause.Of(ctx, err)
	}
	kept := false
	defer func() {
		if !kept {
			closeTurn(ctx, turn, err)
		}
	}()
	t.estimate.began = true
	t.leaveBehind()
	t.Report.Thread = turn.ThreadID()
	finish, err := t.read(ctx, turn)
	if err != nil {
		return err
	}
	if finish == Enough || finish == ToolCalls && t.Report.Usage == nil { // of calls a codex before 0.153 reports no count
		t.charge(ctx, ErrEnough)
	}
	// Without its last items a thread may not continue: its turn is closed.
	kept = finish != Enough && !t.staysAlone() && t.continuation.keep(t.output.repeated(), turn, t.Report.Worker)
	inform(t)
	return t.sink.Finish(ctx, finish)
}
