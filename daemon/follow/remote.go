package follow

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/probes"
)

// nextRemote has one remote without turns start again.
func (f *Follower) nextRemote(ctx context.Context, now time.Time) {
	if now.Before(f.retryAt) {
		return
	}
	for _, r := range f.Remotes() {
		if _, other := f.other(r.Unit); !other || !r.Ready {
			continue
		}
		f.retryAt = now.Add(remoteAgain)
		done, err := f.RenewRemote(ctx, r.Name)
		if done && err == nil { // it answers later if not now
			f.settle(r.Unit)
			f.seen[r.Unit] = seen{known: true, restarts: r.RestartsTotal, after: now, unready: now, before: r.RestartsTotal + 1}
			f.Logger.Info("remote starts again, for another codex", "remote", r.Name, "copy", f.state.InUse)
			return
		}
	}
}

// mostEnds bounds the turns between two reports that count.
const mostEnds = 1000

// seen is the last report of a remote, about the run that it has now.
type seen struct {
	known         bool // the counts are of this run
	ended, failed int
	turns         bool // it had turns
	restarts      uint64
	copied        string    // the copy that it runs
	after         time.Time // an earlier report is of another run, or process
	// unready is since when it does not become ready after its change, or since the last verdict on that; zero: it did.
	unready time.Time
	before  uint64 // its restarts then
}

// countRemotes counts the turns of remotes that have ended since the last step.
func countRemotes(f *Follower, now time.Time) {
	before := f.seen
	f.seen = make(map[string]seen, len(before))
	for _, r := range f.Remotes() {
		was, ok := before[r.Unit]
		if !ok {
			was.after = f.began
		}
		is := was.next(r)
		is.copied, _ = f.Store.Of(r.Unit)
		for _, fault := range was.faults(is, r) {
			f.ended(r.Unit, turn{sourceOf(r.Unit), fault}, nil, now)
		}
		if fault := is.notReady(r, now); fault != "" {
			if bad := f.probation.notReady(r.Unit, turn{sourceOf(r.Unit), fault}, now); bad != "" {
				f.drain(bad, true)
			}
		}
		f.seen[r.Unit] = is
	}
}

// notReady is why a remote does not become ready after its change; empty: it is, or has time left, or something else
// than codex keeps it. Its codex has to end a few times: the start of a unit may wait for an hour for its hands.
func (s *seen) notReady(r probes.Remote, now time.Time) string {
	ended := []probes.RemoteReason{probes.RemoteBackingOff, probes.RemoteStartLimitHit, probes.RemoteFailed}
	ofCodex := r.LastExit != nil && !r.LastExit.OutOfMemory() && r.LastExit.Status != strconv.Itoa(cli.Unavailable)
	switch {
	case s.unready.IsZero(), r.Ready, r.Reason == probes.RemoteStarting, r.Reason == probes.RemoteExited:
		return ""
	case !slices.Contains(ended, r.Reason) || !ofCodex:
	case now.Sub(s.unready) <= readyBound || r.RestartsTotal < s.before+inARow:
		return ""
	default:
		defer func() { s.unready, s.before = now, r.RestartsTotal }()
		return fmt.Sprintf("remote %s is not ready %s after its change: its codex ends (%s)", r.Name, readyBound,
			cmp.Or(r.StatusText, r.LastExit.String()))
	}
	s.unready, s.before = now, r.RestartsTotal // the time begins anew
	return ""
}

// sourceOf is the request of all turns of a remote: one remote alone is no more proof against a codex than one request.
// It is negative, as no request to workers is.
func sourceOf(unit string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(unit)) // it never fails
	return -int64(h.Sum64()>>1) - 1
}

// next is the state after a report.
func (s seen) next(r probes.Remote) seen {
	u := r.Use
	switch {
	case r.ActiveState == "": // systemd has not reported it yet
	case !r.Ready: // the counts of its next run begin anew
		s.known, s.ended, s.failed, s.turns = true, 0, 0, false
	case u != nil && u.At.After(s.after):
		s.known, s.ended, s.failed, s.turns, s.unready = true, u.Ended, u.Failed, u.Turns > 0, time.Time{}
	}
	s.restarts = r.RestartsTotal
	return s
}

// faults are the faults of the turns since then, the newest last; empty ones of good turns.
func (s seen) faults(is seen, r probes.Remote) (list []string) {
	if !s.known || !is.known {
		return nil
	}
	if s.turns && is.restarts > s.restarts && is.copied == s.copied && !r.LastExit.OutOfMemory() {
		list = append(list, "codex ended in a turn of the remote "+r.Name)
	}
	turns, failed := since(is.ended, s.ended), since(is.failed, s.failed)
	for n := max(0, turns-mostEnds); n < turns; n++ {
		fault := ""
		if n >= turns-failed {
			fault = cmp.Or(r.Use.Fault, "codex failed a turn of the remote "+r.Name)
		}
		list = append(list, fault)
	}
	return list
}

// since is how much a count has grown that may have begun anew.
func since(is, was int) int {
	if is < was {
		return is
	}
	return is - was
}
