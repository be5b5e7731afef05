package transcript

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"codex-proxy/remotes/codexthread"
)

// view is a thread as a person sees it. It is safe for concurrent use.
type view struct {
	changed chan struct{} // has a value if there is something to take

	mu    sync.Mutex // guards the rest
	now   Update     // without items
	items []Item     // oldest first, up to maxItems
	dirty map[string]bool
	asked []asked
}

func newView(thread string) *view {
	return &view{changed: make(chan struct{}, 1), now: Update{Thread: thread}, dirty: map[string]bool{}}
}

// update changes the view, and has its reader look.
func (v *view) update(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// take is the state, and the items that have changed since the last call.
func (v *view) take() Update {
	v.mu.Lock()
	defer v.mu.Unlock()
	u := v.now
	u.Questions = []Question{}
	for _, a := range v.asked {
		u.Questions = append(u.Questions, v.about(a))
	}
	for size, at := 0, len(v.items)-1; at >= 0 && size <= maxUpdate; at-- {
		i := v.items[at]
		if !v.dirty[i.ID] {
			continue
		}
		if size += len(i.ID) + len(i.Text) + len(i.Output) + len(i.Status); size <= maxUpdate {
			u.Items = append(u.Items, i)
		}
	}
	slices.Reverse(u.Items)
	clear(v.dirty)
	return u
}

// about is a question as a person has to see it.
func (v *view) about(a asked) Question {
	changes := ""
	if at := v.index(a.item); at >= 0 {
		changes = v.items[at].changes
	}
	return a.about(changes)
}

// find is the request with the question of that ID.
func (v *view) find(question string) (asked, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.asked {
		if q := v.about(a); q.ID == question {
			a.Question = q
			return a, true
		}
	}
	return asked{}, false
}

// begin takes over a thread as codex has it.
func (v *view) begin(r resumed) {
	v.update(func() {
		v.now.Name, v.now.Turn, v.now.Waits = r.Thread.Name, r.running(), r.Thread.Status.Waiting()
		for _, t := range slices.Backward(r.Page.Data) {
			for _, raw := range t.Items {
				v.put(raw)
			}
		}
	})
}

// put is called within update.
func (v *view) put(raw json.RawMessage) {
	i, shown := itemOf(raw)
	if !shown {
		return
	}
	v.dirty[i.ID] = true
	if at := v.index(i.ID); at >= 0 {
		v.items[at] = i
		return
	}
	if len(v.items) == maxItems {
		delete(v.dirty, v.items[0].ID)
		v.items = slices.Delete(v.items, 0, 1)
	}
	v.items = append(v.items, i)
}

func (v *view) index(id string) int {
	return slices.IndexFunc(v.items, func(i Item) bool { return i.ID == id })
}

// grow adds words to an item of the model that is not complete yet.
func (v *view) grow(id, delta string) {
	at := v.index(id)
	if at < 0 {
		v.put(json.RawMessage(`{"type":"agentMessage","id":` + quoted(id) + `}`))
		if at = v.index(id); at < 0 {
			return
		}
	}
	v.items[at].Text = head(v.items[at].Text+delta, maxText)
	v.dirty[id] = true
}

func quoted(text string) string {
	raw, _ := json.Marshal(text) // a string has no errors
	return string(raw)
}

// notified takes over a notification of codex.
func (v *view) notified(method string, params json.RawMessage) {
	var p struct {
		Thread   string              `json:"threadId"`
		Turn     struct{ ID string } `json:"turn"`
		Item     json.RawMessage     `json:"item"`
		ItemID   string              `json:"itemId"`
		Delta    string              `json:"delta"`
		Status   codexthread.Status  `json:"status"`
		Name     string              `json:"threadName"`
		Resolved json.RawMessage     `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil || p.Thread != v.now.Thread {
		return
	}
	v.update(func() {
		switch method {
		case "turn/started":
			v.now.Turn = p.Turn.ID
		case "turn/completed":
			v.now.Turn, v.asked = "", nil
		case "item/started", "item/completed":
			v.put(p.Item)
		case "item/agentMessage/delta":
			v.grow(p.ItemID, p.Delta)
		case "thread/status/changed":
			v.now.Waits = p.Status.Waiting()
		case "thread/name/updated":
			v.now.Name = p.Name
		case "serverRequest/resolved":
			v.asked = slices.DeleteFunc(v.asked, func(a asked) bool { return string(a.id) == string(p.Resolved) })
		}
	})
}

// maxQuestions bounds the questions that are kept.
const maxQuestions = 32

// ask takes over a question.
func (v *view) ask(method string, id, params json.RawMessage) {
	a, is := askedOf(method, id, params)
	if !is || a.thread != v.now.Thread {
		return
	}
	v.update(func() {
		known := slices.ContainsFunc(v.asked, func(b asked) bool { return string(b.id) == string(id) })
		if !known && len(v.asked) < maxQuestions {
			v.asked = append(v.asked, a)
		}
	})
}

// repeated are the questions of a turn that waits, once codex has repeated all of them to a new client; false: it has
// repeated none before ctx or the connection ended.
func (v *view) repeated(ctx context.Context, ended <-chan struct{}) (questions []Question, complete bool) {
	var last <-chan time.Time
	for {
		u := v.take()
		if !u.Waits || len(u.Questions) == maxQuestions {
			return u.Questions, true
		}
		if len(u.Questions) > len(questions) {
			last = time.After(askedPause)
		}
		questions = u.Questions
		select {
		case <-v.changed:
		case <-last:
			return questions, true
		case <-ended:
			return questions, len(questions) > 0
		case <-ctx.Done():
			return questions, len(questions) > 0
		}
	}
}

// forget drops the questions: nothing is asked any more, or nobody is there to be asked.
func (v *view) forget() { v.update(func() { v.asked = nil }) }

// waits reports whether the turn waits for a person.
func (v *view) waits() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now.Waits
}
