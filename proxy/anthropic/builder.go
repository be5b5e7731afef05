package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/parameter"
)

// Head has the fields of an answer before its first block.
type Head struct {
	ID          string // msg_…
	Model       string // as the client named it
	InputTokens int64  // of the request, as far as they are known at the beginning
	// Whole keeps the content for Builder.Message. A stream needs none of it again.
	Whole bool
}

// Builder makes the events of a streamed message, and the message itself, from the events of a turn. One goroutine may
// use it.
//
// The first event of the turn also yields message_start and a ping, and the first of a block the events that open it
// and that close the one before, so that the order is right for any turn. The whole message equals the streamed one.
// The events that a method returns are valid until the next call.
type Builder struct {
	message  Message
	whole    bool
	tools    map[string]string // name for codex → name
	single   bool
	thinking bool   // the answer has thinking blocks
	summary  bool   // with the summary of the reasoning
	mark     string // in front of encrypted reasoning

	begun  bool
	events []Event // the events that a method returns, reused
	next   int     // index of the next block
	open   bool
	block  Block // the open block
	item   string
	part   int             // of the summary in a thinking block; -1: none yet
	text   strings.Builder // of the open block, if the answer is whole

	calls      []string // their ids
	wrote      bool
	safeguards []string
}

// NewBuilder begins the answer to req. mark precedes the encrypted reasoning in the signature of a thinking block.
func NewBuilder(req *MessageRequest, head Head, mark string) *Builder {
	b := &Builder{
		message: Message{ID: head.ID, Type: "message", Role: roleAssistant, Model: head.Model, Content: []Block{},
			Usage: UsageOf(nil)},
		whole: head.Whole, tools: make(map[string]string, len(req.Tools)), single: req.Single, thinking: req.Thinking,
		summary: req.Reasoning.Summary != "" && req.Reasoning.Summary != parameter.NoSummary, mark: mark,
		safeguards: req.Safeguards,
	}
	b.message.Usage.InputTokens = head.InputTokens
	for _, tool := range req.Tools {
		b.tools[tool.Wire.Name] = tool.Name
	}
	return b
}

// Message is the whole message, after End.
func (b *Builder) Message() Message { return b.message }

// Calls is how many calls of tools the answer has.
func (b *Builder) Calls() int { return len(b.calls) }

// Wrote reports whether there is more than thinking.
func (b *Builder) Wrote() bool { return b.wrote }

// Begin makes the events before all others, once.
func (b *Builder) Begin() []Event {
	b.start()
	return b.events
}

// Ping breaks the silence of a stream.
func (b *Builder) Ping() []Event {
	if b.start(); len(b.events) == 0 {
		b.add(Event{Type: EventPing})
	}
	return b.events
}

// Text adds to the text of the message with the model's id item.
func (b *Builder) Text(item, delta string) []Event {
	b.start()
	if delta != "" {
		b.wrote = true
		b.ensure(BlockText, item)
		b.delta(deltaText, delta)
	}
	return b.events
}

// Thinking adds to one part of the summary of the reasoning with the model's id item.
func (b *Builder) Thinking(item string, part int, delta string) []Event {
	b.start()
	if b.thinking && b.summary && delta != "" {
		b.ensure(BlockThinking, item)
		b.think(part, delta)
	}
	return b.events
}

func (b *Builder) think(part int, delta string) {
	if b.part >= 0 && b.part != part {
		delta = "\n\n" + delta
	}
	b.part = part
	b.delta(deltaThinking, delta)
}

// modelItem is a finished item of the model's output.
type modelItem struct {
	Type      string        `json:"type"`
	ID        string        `json:"id"`
	Summary   []summaryPart `json:"summary"`
	Encrypted string        `json:"encrypted_content"`
	Name      string        `json:"name"`
	Arguments string        `json:"arguments"`
	CallID    string        `json:"call_id"`
}

type summaryPart struct {
	Text string `json:"text"`
}

// Item finishes an item of the model's output. The text of a message has been sent before it; codex handles the calls
// of all tools that are not the client's.
func (b *Builder) Item(raw json.RawMessage) []Event {
	b.events = b.events[:0]
	var item modelItem
	if jsonbody.Unmarshal(raw, &item) != nil {
		return nil
	}
	switch item.Type {
	case "reasoning":
		b.reasoning(item)
	case "function_call":
		name, known := b.tools[item.Name]
		if b.wrote = true; known && (len(b.calls) == 0 || !b.single) {
			b.call(name, item)
		}
	default:
		b.wrote = true
	}
	return b.events
}

// reasoning ends a thinking block with its signature, the encrypted reasoning. A block without a summary has no text,
// as with Anthropic's models if their thinking is omitted.
func (b *Builder) reasoning(item modelItem) {
	begun := b.open && b.block.Type == BlockThinking
	if !b.thinking || item.Encrypted == "" && !begun {
		return
	}
	b.start()
	b.ensure(BlockThinking, item.ID)
	if b.part < 0 && b.summary {
		for i, part := range item.Summary {
			b.think(i, part.Text)
		}
	}
	if item.Encrypted != "" {
		b.block.Signature = b.mark + item.Encrypted
		b.add(Event{Type: EventBlockDelta, Index: b.next, Delta: deltaSignature, Text: b.block.Signature})
	}
	b.close()
}

// call adds the call of a tool. Codex reports its arguments at once.
func (b *Builder) call(name string, item modelItem) {
	b.start()
	b.close()
	b.calls = append(b.calls, item.CallID)
	input := inputOf(item.Arguments)
	b.openBlock(Block{Type: BlockToolUse, ID: item.CallID, Name: name, Input: json.RawMessage(`{}`)}, item.ID)
	b.delta(deltaInput, input)
	b.block.Input = json.RawMessage(input)
	b.close()
}

// inputOf is the input of a tool for the arguments that the model wrote. Clients need an object: other arguments become
// its member INVALID_JSON, the name that Anthropic's models know.
// Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/fine-grained-tool-streaming.
func inputOf(arguments string) string {
	arguments = strings.TrimSpace(arguments)
	value := jsontext.Value(arguments)
	switch {
	case arguments == "":
		return "{}"
	case value.IsValid(jsontext.AllowDuplicateNames(true)) && value.Kind() == '{':
		return arguments
	}
	wrapped, err := openai.Encode(map[string]string{"INVALID_JSON": arguments})
	if err != nil { // strings always encode
		panic(err)
	}
	return string(wrapped)
}

// End ends the message.
func (b *Builder) End(stop Stop, usage *openai.Usage) []Event {
	b.start()
	b.close()
	b.message.StopReason, b.message.StopSequence, b.message.StopDetails = stop.reason(), stop.sequence(), stop.details()
	if usage != nil {
		b.message.Usage = UsageOf(usage)
	}
	b.message.SafeguardResults = safeguardResults(b.safeguards, b.calls)
	b.add(Event{Type: EventMessageDelta, Stop: &stop, Usage: b.message.Usage.ofEnd(),
		Safeguards: b.message.SafeguardResults}, Event{Type: EventMessageStop})
	return b.events
}

// start forgets the events of the call before, and begins the message once.
func (b *Builder) start() {
	b.events = b.events[:0]
	if b.begun {
		return
	}
	b.begun = true
	head := b.message
	b.add(Event{Type: EventMessageStart, Message: &head}, Event{Type: EventPing})
}

func (b *Builder) add(events ...Event) { b.events = append(b.events, events...) }

// ensure opens the block of that type for the model's item, unless it is open, and closes any other.
func (b *Builder) ensure(kind, item string) {
	if b.open && b.block.Type == kind && b.item == item {
		return
	}
	b.close()
	b.openBlock(Block{Type: kind}, item)
}

func (b *Builder) openBlock(block Block, item string) {
	b.open, b.block, b.item, b.part = true, block, item, -1
	b.add(Event{Type: EventBlockStart, Index: b.next, Block: &block})
}

func (b *Builder) delta(kind deltaKind, text string) {
	for piece := range openai.Pieces(text) {
		b.add(Event{Type: EventBlockDelta, Index: b.next, Delta: kind, Text: piece})
	}
	if b.whole && kind != deltaInput {
		b.text.WriteString(text)
	}
}

// close closes the open block, if there is one.
func (b *Builder) close() {
	if !b.open {
		return
	}
	b.add(Event{Type: EventBlockStop, Index: b.next})
	b.open = false
	b.next++
	if !b.whole {
		return
	}
	if b.block.Type != BlockToolUse {
		b.block.Text = b.text.String()
	}
	b.text = strings.Builder{}
	b.message.Content = append(b.message.Content, b.block)
}
