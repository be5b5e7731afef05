package responses

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/proxy/appserver/history"
	"codex-proxy/proxy/openai"
)

// fromSummary stands before the summary in the conversation that goes on.
const fromSummary = "The conversation up to here was compacted. This summary of it was written then, to go on from:\n\n"

// compactedItems are the standing messages of a compaction as one, as its content can have many small ones, and its
// summary.
func compactedItems(c openai.Compacted) (items []history.Item) {
	if len(c.Standing) > 0 {
		items = append(items, history.TextMessage("developer", strings.Join(c.Standing, "\n\n")))
	}
	return append(items, history.TextMessage("user", fromSummary+c.Summary))
}

// retainedSize bounds the texts of the user's messages that are kept, in bytes: about 64 000 tokens, as OpenAI's server
// and the codex CLI keep them. The summary stands for the older ones.
const retainedSize = 256 << 10

// retained are the parts of a conversation that its compaction keeps as they are.
type retained struct {
	messages []openai.Item   // of the user
	standing []string        // messages of the developer and the system, each once
	stands   map[string]bool // the same
	stood    int             // bytes of standing
	texts    int             // bytes of all messages of the user from the newest on
	size     int64           // of the messages
}

// retain finds what stays of a conversation.
func retain(conversation []item) (kept retained, err error) {
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
func (r *retained) add(i openai.Item) {
	switch {
	case i.Type == "compaction":
		for _, text := range slices.Backward(i.Compacted().Standing) {
			r.stand(text)
		}
	case i.Type != "message":
	case i.Role == "user":
		if r.texts += len(i.Text()); r.texts <= retainedSize {
			r.messages = append(r.messages, i)
			r.size += int64(i.Size())
		}
	case i.Role == "developer", i.Role == "system":
		r.stand(i.Text())
	}
}

func (r *retained) stand(text string) {
	if !r.stands[text] {
		r.stands[text], r.standing = true, append(r.standing, text)
		r.stood += len(text)
	}
}

// encode returns the messages as JSON.
func (r *retained) encode() (output []json.RawMessage, err error) {
	for _, i := range r.messages {
		data, err := i.Encode()
		if err != nil {
			return nil, fmt.Errorf("cannot encode a message: %w", err)
		}
		output = append(output, data)
	}
	return output, nil
}
