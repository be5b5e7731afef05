package anthropic

import (
	"fmt"
	"slices"
	"strconv"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// MessageParam is one message of the conversation.
type MessageParam struct {
	Role   string // user, assistant or system
	At     string // its path, for errors: messages.3
	Blocks []BlockParam
}

// rawMessage is a message in a request.
type rawMessage struct {
	Role    string           `json:"role"`
	Content jsonbody.Content `json:"content"`
}

func (raw *rawRequest) applyMessages(req *MessageRequest) error {
	switch {
	case len(raw.Messages) == 0:
		return openai.Invalid("messages_required", "messages", "messages: at least one message is required")
	case len(raw.Messages) > jsonbody.MaxList:
		return invalid("messages", fmt.Sprintf("must not hold more than %d messages", jsonbody.MaxList))
	}
	reader := blockReader{request: req}
	req.Messages = make([]MessageParam, 0, len(raw.Messages))
	for i := range raw.Messages {
		m, err := reader.message(&raw.Messages[i], "messages."+strconv.Itoa(i))
		if err != nil {
			return err
		}
		raw.Messages[i].Content.Parts = nil // its memory is needed for the next ones
		req.Messages = append(req.Messages, m)
	}
	if err := pairTools(req.Messages); err != nil {
		return err
	}
	return refusePrefill(req.Messages)
}

// refusePrefill refuses a conversation that ends with the beginning of the answer, which codex cannot continue, in the
// words of Anthropic's models that cannot either.
func refusePrefill(messages []MessageParam) error {
	last := messages[len(messages)-1]
	if last.Role != roleAssistant {
		return nil
	}
	return unsupported(last.At, last.At+": This model does not support assistant message prefill. "+
		"The conversation must end with a user message.")
}

// Roles.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

func (r *blockReader) message(raw *rawMessage, at string) (m MessageParam, err error) {
	m = MessageParam{Role: raw.Role, At: at}
	switch raw.Role {
	case roleUser, roleAssistant, roleSystem:
	case "":
		return m, required(at + ".role")
	default:
		return m, invalid(at+".role", fmt.Sprintf("must be user or assistant, not %q", openai.Clip(raw.Role)))
	}
	m.Blocks, err = r.content(raw.Content, at+".content", raw.Role)
	m.Blocks = resultsFirst(m.Blocks)
	return m, err
}

// resultsFirst puts the results of tools before everything else, as the model endpoint wants them right behind the
// calls.
func resultsFirst(blocks []BlockParam) []BlockParam {
	after := false
	for _, b := range blocks {
		result := isResult(b)
		if result && after {
			slices.SortStableFunc(blocks, func(a, b BlockParam) int { return rank(a) - rank(b) })
			break
		}
		after = after || !result
	}
	return blocks
}

func rank(b BlockParam) int {
	if isResult(b) {
		return 0
	}
	return 1
}
