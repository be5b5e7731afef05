package plan

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"codex-proxy/codex/history"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// fromSummary stands before the summary in the conversation that goes on.
const fromSummary = "The conversation up to here was compacted. This summary of it was written then, to go on from:\n\n"

// compactedItems are the standing messages of a compaction as one, as its content can have many small ones, and its
// summary. Messages that the conversation has outside of it, in beside, are left out.
func compactedItems(c wire.Compacted, beside said) (items []history.Item) {
	standing := slices.DeleteFunc(c.Standing, func(text string) bool { return !beside.add(text) })
	if len(standing) > 0 {
		items = append(items, history.TextMessage("developer", strings.Join(standing, "\n\n")))
	}
	return append(items, history.TextMessage("user", fromSummary+c.Summary))
}

// said is a set of messages of the developer and the system. It has their hashes alone: a text of many parts is a copy,
// and compactions can have many small messages.
type said struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

func newSaid() said { return said{maphash.MakeSeed(), map[uint64]struct{}{}} }

// add reports whether the message is new.
func (s said) add(text string) bool {
	before := len(s.hashes)
	s.hashes[maphash.String(s.seed, text)] = struct{}{}
	return len(s.hashes) > before
}

// saidIn are the messages in a conversation that has a compaction.
func saidIn(items []wire.Item) said {
	s := newSaid()
	if !slices.ContainsFunc(items, func(i wire.Item) bool { return i.Type == "compaction" }) {
		return s
	}
	for _, i := range items {
		if i.Type == "message" && (i.Role == "developer" || i.Role == "system") {
			s.add(i.Text())
		}
	}
	return s
}

// pruned leaves out the items that the last compaction by a response of the history replaces, but not user messages.
func pruned(conversation []Item, history int) ([]Item, error) {
	for at, i := range slices.Backward(conversation[:history]) {
		if i.Worker == "" || !strings.HasPrefix(i.ID, "cmp_") {
			continue
		}
		kept, err := retain(conversation[:at])
		if err != nil {
			return nil, err
		}
		list := make([]Item, 0, len(kept.messages)+len(conversation)-at)
		for _, message := range kept.messages {
			list = append(list, Item{Item: stored.Item{ID: message.ID}, Decoded: &message})
		}
		return append(list, conversation[at:]...), nil
	}
	return conversation, nil
}

// retainedSize bounds the texts of the user's messages that are kept, in bytes: about 64 000 tokens, as OpenAI's server
// and the codex CLI keep them. The summary stands for the older ones.
const retainedSize = 256 << 10

// maxStood bounds the standing messages, so that a summary has room next to them.
const maxStood = wire.MaxCompacted / 2

// Retained are the parts of a conversation that its compaction keeps as they are.
type Retained struct {
	messages []wire.Item     // of the user
	standing []string        // messages of the developer and the system, each once
	stands   map[string]bool // the same
	stood    int             // bytes of standing
	texts    int             // bytes of all messages of the user from the newest on
	size     int             // of messages
}

// retain finds the parts of a conversation that stay.
func retain(conversation []Item) (kept Retained, err error) {
	kept.stands = map[string]bool{}
	for _, i := range slices.Backward(conversation) {
		decoded, err := i.decode()
		if err != nil {
			return kept, err
		}
		decoded.ID = i.ID
		kept.add(decoded)
	}
	slices.Reverse(kept.messages)
	slices.Reverse(kept.standing)
	return kept, nil
}

// add adds an item before all others.
func (r *Retained) add(i wire.Item) {
	switch {
	case i.Type == "compaction":
		for _, text := range slices.Backward(i.Compacted().Standing) {
			r.stand(text)
		}
	case i.Type != "message":
	case i.Role == "user":
		if r.texts += len(i.Text()); r.texts <= retainedSize {
			r.messages = append(r.messages, i)
			r.size += i.Size()
		}
	case i.Role == "developer", i.Role == "system":
		r.stand(i.Text())
	}
}

func (r *Retained) stand(text string) {
	if !r.stands[text] && r.stood <= maxStood {
		r.stands[text], r.standing = true, append(r.standing, text)
		r.stood += len(text)
	}
}

// Output is about how many bytes of an answer they become, with the messages of the user or without them.
func (r *Retained) Output(messages bool) int {
	if messages {
		return r.stood + r.size
	}
	return r.stood
}

// Encode returns the messages as JSON.
func (r *Retained) Encode() (output []json.RawMessage, err error) {
	for _, i := range r.messages {
		data, err := i.Encode()
		if err != nil {
			return nil, fmt.Errorf("cannot encode a message: %w", err)
		}
		output = append(output, data)
	}
	return output, nil
}
