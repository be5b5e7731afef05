package jobs

import (
	"cmp"
	"strings"

	"codex-proxy/proxy"
	"codex-proxy/proxy/conversations"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/wire"
)

// join prepares an item of the input for the conversation. Its items have different ids: the copy of an item that the
// input refers to gets a new id.
func (j *Job) join(known map[string]plan.Item, i plan.Item, in wire.InputItem) (plan.Item, error) {
	if j.Req.Conversation == "" {
		return i, nil
	}
	if in.Reference != "" {
		prefix, _, _ := strings.Cut(i.ID, "_")
		i.ID = proxy.NewID(prefix + "_")
	}
	if _, there := known[i.ID]; there {
		return i, conversations.Duplicate(in.At+".id", i.ID)
	}
	known[i.ID] = i
	return i, nil
}

// CacheKey identifies the conversation for the choice of an account.
func (j *Job) CacheKey() string { return cmp.Or(j.Req.CacheKey(), j.Req.Conversation) }

// Job is the request of a response, with everything that it refers to.
type Job struct {
	Req     *wire.Request
	Blank   wire.Response
	History []plan.Item // before the input
	Input   []plan.Item
	Loose   bool // the history is not stored
	Store   bool
	Recall  bool    // the connection remembers the response
	Prefer  string  // the worker of the last answer
	Opening *string // the instructions with which the conversation began; nil: the ones of req
	claims  bool    // it is to have the conversation of req
	Claimed bool    // it has it
}

// Kept reports whether a client may refer to the response, or to its conversation, later.
func (j *Job) Kept() bool { return j.Store || j.Recall || j.Claimed }

// BegunWith are the instructions with which the conversation began.
func (j *Job) BegunWith() string {
	switch {
	case j.Opening != nil:
		return *j.Opening
	case j.Req.Instructions != nil:
		return *j.Req.Instructions
	}
	return ""
}

// Conversation is all that the model gets.
func (j *Job) Conversation() []plan.Item {
	return append(append(make([]plan.Item, 0, len(j.History)+len(j.Input)), j.History...), j.Input...)
}

// Remembered is the last response of a connection, stored or not.
type Remembered struct {
	ID, Worker string
	Opening    string      // the instructions with which the conversation began
	Items      []plan.Item // the whole conversation
	Stored     bool
}
