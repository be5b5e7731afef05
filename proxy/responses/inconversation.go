package responses

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/conversations"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// findConversation reads the items of the conversation of the request, after it has claimed it until close.
func (e *Endpoint) findConversation(ctx context.Context, x *proxy.Exchange, job *job) error {
	id := job.req.Conversation
	if e.Store == nil {
		return conversations.NotFound("conversation", id, false)
	}
	err := e.readConversation(ctx, x, job)
	switch {
	case errors.Is(err, stored.ErrNotFound):
		return conversations.NotFound("conversation", id, true)
	case errors.Is(err, stored.ErrLocked):
		return conversations.Locked("conversation")
	case errors.Is(err, stored.ErrTooLong):
		return tooLong("conversation", "delete items of it, or begin a new one")
	default:
		return cause.Of(ctx, err)
	}
}

func (e *Endpoint) readConversation(ctx context.Context, x *proxy.Exchange, job *job) error {
	owner, id := x.Key.Name, job.req.Conversation
	if _, _, err := e.Store.ConversationAbout(ctx, owner, id); err != nil { // only its owner may claim it
		return err
	}
	if job.claims {
		if err := e.Store.Claim(id, job.blank.ID); err != nil {
			return err
		}
		job.claimed = true
	}
	worker, size, err := e.Store.ConversationAbout(ctx, owner, id) // it may have changed before the claim
	if err != nil {
		return err
	}
	if err := x.Grant.Body.Add(ctx, limits.PerByte*size); err != nil {
		return err
	}
	items, err := e.Store.ConversationItems(ctx, owner, id)
	if err != nil {
		return err
	}
	x.Conversation, job.prefer, job.history = id, worker, fromStore(items)
	return x.Grant.Body.Add(ctx, weight(job.history))
}

// close ends the job's claim of a conversation, if it has one.
func (e *Endpoint) close(job *job) {
	if job != nil && job.claimed {
		job.claimed = false
		e.Store.Yield(job.req.Conversation, job.blank.ID)
	}
}

// extends reports whether a response adds its input and output to its conversation: an interrupted one adds nothing, so
// that its client can send the input again.
func extends(status string) bool {
	return status == openai.StatusCompleted || status == openai.StatusIncomplete
}

// join prepares an item of the input for the conversation. Its items have different ids: the copy of an item that the
// input refers to gets a new id.
func (j *job) join(known map[string]item, i item, in openai.InputItem) (item, error) {
	if j.req.Conversation == "" {
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

// cacheKey identifies the conversation for the choice of an account.
func (j *job) cacheKey() string { return cmp.Or(j.req.CacheKey(), j.req.Conversation) }
