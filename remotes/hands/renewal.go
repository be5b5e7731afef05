package hands

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"codex-proxy/remotes/codexthread"
)

// renewal is the change to a new checkout of a workspace in which codex has worked.
type renewal struct {
	Session string    `json:"session"` // the one before: codex-runner keeps its last changes
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	// Informed are the threads with a model that knows, and Shown those in which a person has seen it.
	Informed []string `json:"informed,omitempty"`
	Shown    []string `json:"shown,omitempty"`
}

const (
	// mostRenewals bounds the renewals of the record, and mostInformed the threads of one that know.
	mostRenewals, mostInformed = 8, 512
	// mostReason bounds the text of a reason, in bytes.
	mostReason = 500
)

// renewed is the record with another session in the place of one that codex has worked in.
func (r record) renewed(reason string, now time.Time) record {
	if !r.Served || r.Session == "" {
		return r
	}
	one := renewal{Session: r.Session, At: now, Reason: shown(reason, mostReason)}
	r.Renewals = append(slices.Clone(r.Renewals), one)
	r.Renewals = r.Renewals[max(0, len(r.Renewals)-mostRenewals):]
	return r
}

// news are the renewals since a thread was created that a list, Informed or Shown, does not have it in. history is the
// thread that its history is of: the one that it is a fork of, or itself.
func (r record) news(thread, history string, in func(*renewal) *[]string) (list []renewal) {
	created, is := codexthread.Created(history)
	if !is {
		return nil
	}
	for i := range r.Renewals {
		if one := &r.Renewals[i]; one.At.After(created) && !slices.Contains(*in(one), thread) {
			list = append(list, *one)
		}
	}
	return list
}

func informed(r *renewal) *[]string { return &r.Informed }
func showed(r *renewal) *[]string   { return &r.Shown }

// memory is the record of Hands.
type memory struct{ *Hands }

// news are the renewals that a thread does not know of.
func (h memory) news(thread, history string, in func(*renewal) *[]string) []renewal {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.record.news(thread, history, in)
}

// know records that a thread knows of all renewals.
func (h memory) know(thread string, in func(*renewal) *[]string) {
	h.update(func(r *record) {
		r.Renewals = slices.Clone(r.Renewals)
		for i := range r.Renewals {
			if list := in(&r.Renewals[i]); !slices.Contains(*list, thread) {
				*list = append(slices.Clone(*list), thread)
				*list = (*list)[max(0, len(*list)-mostInformed):]
			}
		}
	})
}

// descends records that a thread has the history of another one, if that may matter.
func (h memory) descends(thread, of string) {
	h.mu.Lock()
	useless := len(h.record.Renewals) == 0 ||
		slices.ContainsFunc(h.record.Forks, func(d descent) bool { return d.Thread == thread })
	h.mu.Unlock()
	if useless {
		return
	}
	h.update(func(r *record) {
		r.Forks = append(slices.Clone(r.Forks), descent{thread, of})
		r.Forks = r.Forks[max(0, len(r.Forks)-mostInformed):]
	})
}

// origin is the thread that a thread has its history from, or the thread itself.
func (h memory) origin(thread string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.record.Forks {
		if d.Thread == thread {
			return d.Of
		}
	}
	return thread
}

// forget records that the model of a thread may know of no renewal: a part of its history is gone.
func (h memory) forget(thread string) {
	h.mu.Lock()
	known := slices.ContainsFunc(h.record.Renewals, func(r renewal) bool { return slices.Contains(r.Informed, thread) })
	h.mu.Unlock()
	if !known {
		return
	}
	h.update(func(r *record) {
		r.Renewals = slices.Clone(r.Renewals)
		for i := range r.Renewals {
			list := &r.Renewals[i].Informed
			*list = slices.DeleteFunc(slices.Clone(*list), func(one string) bool { return one == thread })
		}
	})
}

// update changes the record, and writes it.
func (h memory) update(change func(*record)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.record)
	if err := h.record.write(h.Dir); err != nil {
		h.Logger.Error("the record of the hands is not written", "error", err)
	}
}

// injectBound bounds the time in which codex takes an item into a thread.
const injectBound = 5 * time.Second

// Announce has the model of a thread read, before its next turn, that the workspace is a new checkout since the thread
// was created. It does so once.
func (h *Hands) Announce(ctx context.Context, thread string,
	inject func(ctx context.Context, thread string, items []any) error) {
	memory{h}.announce(ctx, thread, memory{h}.origin(thread), inject)
}

func (h memory) announce(ctx context.Context, thread, history string,
	inject func(ctx context.Context, thread string, items []any) error) {
	h.announcing.Lock()
	defer h.announcing.Unlock()
	list := h.news(thread, history, informed)
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, injectBound)
	defer cancel()
	if err := inject(ctx, thread, []any{item(list)}); err != nil {
		h.Logger.Warn("the model does not learn of the new checkout", "thread_id", thread, "error",
			err)
		return
	}
	h.know(thread, informed)
}

// item has the words that the model reads.
func item(list []renewal) any {
	last := list[len(list)-1]
	words := fmt.Sprintf("<workspace_renewed>\n%s is a new checkout of the repository since %s, and all processes "+
		"have ended: %s. What this conversation had changed in files before is not there. Look at the files before you "+
		"go on. The person can print what was changed with: %s\n</workspace_renewed>",
		Directory, last.At.UTC().Format(time.RFC3339), last.Reason, diffs(list))
	return map[string]any{"type": "message", "role": "user",
		"content": []any{map[string]any{"type": "input_text", "text": words}}}
}

// diffs are the commands that print the changes of sessions.
func diffs(list []renewal) string {
	var all []string
	for _, r := range list {
		all = append(all, "codex-runner diff "+r.Session)
	}
	return strings.Join(all, "; ")
}

// show has a person read the same in a thread, once.
func (g notices) show(of Client, thread, history string) {
	list := memory{g.Hands}.news(thread, history, showed)
	if len(list) == 0 {
		return
	}
	words := fmt.Sprintf("The workspace is a new checkout: %s. What was changed before: %s", list[len(list)-1].Reason,
		diffs(list))
	if of.Notify("warning", map[string]any{"threadId": thread, "message": words}) == nil {
		memory{g.Hands}.know(thread, showed)
	}
}
