package jobs

import (
	"context"
	"errors"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/conversations"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/responses/plan"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// findConversation reads the items of the conversation of the request, after it has claimed it until close.
func (f *Finder) findConversation(ctx context.Context, x *proxy.Exchange, job *Job) error {
	id := job.Req.Conversation
	if f.Store == nil {
		return conversations.NotFound("conversation", id, false)
	}
	err := f.readConversation(ctx, x, job)
	switch {
	case errors.Is(err, stored.ErrNotFound):
		return conversations.NotFound("conversation", id, true)
	case errors.Is(err, stored.ErrLocked):
		return conversations.Locked("conversation")
	case errors.Is(err, stored.ErrTooLong):
		return TooLong("conversation", "delete items of it, or begin a new one")
	default:
		return cause.Of(ctx, err)
	}
}

func (f *Finder) readConversation(ctx context.Context, x *proxy.Exchange, job *Job) error {
	owner, id := x.Key.Name, job.Req.Conversation
	if _, _, err := f.Store.ConversationAbout(ctx, owner, id); err != nil { // only its owner may claim it
		return err
	}
	if job.claims {
		if err := f.Store.Claim(id, job.Blank.ID); err != nil {
			return err
		}
		job.Claimed = true
	}
	worker, size, err := f.Store.ConversationAbout(ctx, owner, id) // it may have changed before the claim
	if err != nil {
		return err
	}
	if err := x.Grant.Body.Add(ctx, limits.PerByte*size); err != nil {
		return err
	}
	items, err := f.Store.ConversationItems(ctx, owner, id)
	if err != nil {
		return err
	}
	x.Conversation, job.Prefer, job.History = id, worker, plan.FromStore(items)
	return x.Grant.Body.Add(ctx, plan.Weight(job.History))
}

// Close ends the job's claim of a conversation, if it has one.
func (f *Finder) Close(job *Job) {
	if job != nil && job.Claimed {
		job.Claimed = false
		f.Store.Yield(job.Req.Conversation, job.Blank.ID)
	}
}

// Extends reports whether a response adds its input and output to its conversation: an interrupted one adds nothing, so
// that its client can send the input again.
func Extends(status string) bool {
	return status == wire.StatusCompleted || status == wire.StatusIncomplete
}
