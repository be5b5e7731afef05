package remotes

import (
	"time"

	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/turnjournal"
)

// action is the treatment of a record by the manager after codex has started.
type action int

const (
	forget  action = iota // nothing was cut, or its user had interrupted it
	adopt                 // the turn runs: only the connection was lost
	proceed               // the turn goes on, with the messages that codex has lost
	ask                   // its user decides
	leave                 // the settings have it end here
	giveUp                // it went on as often as the settings allow
)

// verdict is the decision about one record.
type verdict struct {
	action action
	cut    bool                // the end of codex has cut the last turn
	inputs []turnjournal.Input // for proceed: the messages that codex has lost
	// at is when these were read, if messages may have come since.
	at time.Time
}

// policy is the settings for cut turns.
type policy struct {
	mode  remoteconfig.Continue
	limit int
}

// decide compares a record with the last turns of its thread as codex has them, the newest first.
func decide(r turnjournal.Record, last []codexthread.Turn, p policy) verdict {
	lost := missing(r, last)
	cut := wasCut(r, last)
	v := verdict{cut: cut}
	switch {
	case len(last) > 0 && last[0].Status == codexthread.InProgress:
		v.action = adopt
	case r.Asked, r.Quota && len(lost) == 0: // a new message starts another turn than the one that waits for quota
		v.action = ask
	case !cut && len(lost) == 0:
		v.action = forget
	case r.Continued >= p.limit:
		v.action = giveUp
	case !cut || p.mode == remoteconfig.Always: // a message that codex never took up is no cut turn
		v.action, v.inputs = proceed, lost
	case p.mode == remoteconfig.Ask:
		v.action = ask
	default:
		v.action = leave
	}
	return v
}

// wasCut reports whether the end of codex has cut the last turn. Codex shows a cut turn like one that its user has
// interrupted.
func wasCut(r turnjournal.Record, last []codexthread.Turn) bool {
	if len(last) == 0 || r.Kind != "" || r.Interrupted == turnjournal.AnyTurn || r.Interrupted == last[0].ID {
		return false
	}
	return last[0].Status == codexthread.Interrupted || last[0].ID == r.Mended
}

// missing are the messages that went to codex and are in none of the turns. Each message of a turn stands for one of
// the record's.
func missing(r turnjournal.Record, last []codexthread.Turn) (lost []turnjournal.Input) {
	var had []codexthread.Message
	for _, t := range last {
		if t.ID <= r.After { // ids of codex grow with time (UUIDv7)
			break
		}
		had = append(had, t.Messages()...)
	}
	for _, i := range r.Inputs {
		found := false
		for n, msg := range had {
			if i.Same(msg.ClientID, msg.Content) {
				had = append(had[:n], had[n+1:]...)
				found = true
				break
			}
		}
		if !found {
			lost = append(lost, i)
		}
	}
	return lost
}
