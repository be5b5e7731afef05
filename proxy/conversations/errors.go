package conversations

import (
	"fmt"
	"net/http"

	"codex-proxy/proxy/openai"
)

// NotFound is the answer to an id of a conversation that leads nowhere; param has it. keeps is whether this server
// keeps any.
func NotFound(param, id string, keeps bool) error {
	why := "it was deleted, or its time is over; create a new one"
	if !keeps {
		why = "this server keeps none (response_retention); send the whole conversation as input"
	}
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "conversation_not_found", Param: param,
		Message: fmt.Sprintf("conversation %q not found: %s", openai.Bounded(id), why),
	}
}

// itemNotFound is the answer to an id of an item that the conversation does not have.
func itemNotFound(id string) error {
	return &openai.Error{
		Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "item_not_found", Param: "item_id",
		Message: fmt.Sprintf("item %q not found: the conversation has no such item", openai.Bounded(id)),
	}
}

// Locked is OpenAI's answer to a request for a conversation in which a response is being made.
func Locked(param string) error {
	return openai.Invalid("conversation_locked", param,
		"another response is being made in this conversation; try again when it has ended")
}

// Duplicate is the answer to an item with an id that the conversation has already; param has it.
func Duplicate(param, id string) error {
	return openai.Invalid("duplicate_item", param, fmt.Sprintf(
		"the conversation has an item %q already, or the request has it twice; send only new items, or no id",
		openai.Bounded(id)))
}
