package eventstream

import (
	"net/http"
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
)

// compaction is the output of a response that compacts its conversation, in the making.
type compaction struct {
	content wire.Compacted // without its summary
	draft   *Builder       // of the summary
}

func newCompaction(begun wire.Compacted) *compaction {
	return &compaction{begun, New(&wire.Request{}, wire.Response{}, "",
		func(prefix string) string { return prefix })}
}

// Compact makes the events of the item compaction, after all that the model wrote. The error is one of NotCompacted.
func (b *Builder) Compact() ([]Event, *openai.Error) {
	content := b.compaction.content
	if content.Summary = b.compaction.summary(); content.Summary == "" {
		return nil, NotCompacted("the model wrote no summary")
	}
	encoded, ok := content.Encode()
	if !ok {
		return nil, NotCompacted("its developer messages are too long")
	}
	events := b.Begin()
	b.open = &openItem{
		OutputItem: wire.OutputItem{Type: wire.ItemCompaction, ID: b.newID("cmp_"),
			Encrypted: encoded}, index: len(b.response.Output),
	}
	return append(events, b.itemEvent("response.output_item.added"), b.finishItem("")), nil
}

// summary is the text that the model wrote.
func (c *compaction) summary() string {
	c.draft.closeItem(wire.StatusCompleted)
	var texts []string
	for _, item := range c.draft.full {
		if item.Text != nil && strings.TrimSpace(*item.Text) != "" {
			texts = append(texts, *item.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// NotCompacted is the error of a conversation of which there is no whole summary.
func NotCompacted(why string) *openai.Error {
	return &openai.Error{
		Status: http.StatusBadGateway, Type: openai.TypeServer, Code: "compaction_failed",
		Message: "the conversation is not compacted: " + why +
			"; send the request again, or go on with the conversation as it is",
	}
}
