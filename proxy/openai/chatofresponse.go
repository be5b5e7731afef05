package openai

import (
	"fmt"
	"maps"
	"slices"
)

// ChatOrResponse is Chat for clients that may send the body of a response in place of a chat's, with input and without
// messages, and read a chat completion as the answer. Cursor does so for the names of models that it knows
// (gabrii/Cursor-Azure-GPT-5, issue 69).
func (r Reading) ChatOrResponse(body []byte) (*ChatRequest, error) {
	var raw rawChat
	if err := decodeBody(body, &raw); err != nil {
		return nil, err
	}
	if _, isResponse := raw.Others["input"]; isResponse && raw.Messages == nil {
		return r.chatOfResponse(body)
	}
	return r.chat(raw)
}

// chatOfResponseParams are the parameters of a response in place of a chat: all parameters of a response, and the
// parameters of a chat that have no effect.
var chatOfResponseParams = func() params {
	table := maps.Clone(responseParams)
	for name, p := range chatParams {
		if _, there := table[name]; !there && p.rule == ignored {
			table[name] = p
		}
	}
	return table
}()

// chatOfResponse reads the body of a response as a chat.
func (r Reading) chatOfResponse(body []byte) (*ChatRequest, error) {
	var raw rawResponse
	if err := raw.decode(body); err != nil {
		return nil, err
	}
	delete(raw.Others, "messages") // they are null
	raw.Model = r.model(raw.Model)
	if err := checkModel(raw.Model); err != nil {
		return nil, err
	}
	usage, err := raw.includesUsage()
	if err != nil {
		return nil, err
	}
	req, err := raw.decodedBy(r, chatOfResponseParams)
	if err != nil {
		return nil, err
	}
	chat, err := req.chat()
	if err != nil {
		return nil, err
	}
	chat.IncludeUsage = usage
	return chat, nil
}

// includesUsage reads stream_options as a chat has it, of which nothing is ignored then.
func (raw rawResponse) includesUsage() (bool, error) {
	value, ok := raw.Others["stream_options"]
	if !ok {
		return false, nil
	}
	delete(raw.Others, "stream_options")
	var options *streamOptions
	if unmarshal([]byte(value), &options) != nil {
		return false, Invalid("invalid_type", "stream_options",
			"stream_options must be an object of the boolean include_usage")
	}
	return options != nil && options.IncludeUsage, nil
}

// chat converts the request to a chat, which cannot refer to stored objects or store any.
func (req *ResponseRequest) chat() (*ChatRequest, error) {
	if err := req.checkChat(); err != nil {
		return nil, err
	}
	chat := &ChatRequest{
		Model: req.Model, Stream: req.Stream, N: 1, Tools: req.Tools.Offered, SingleCall: req.Tools.Single,
		Instructions: req.Tools.Instructions, Format: req.Format, Reasoning: req.Reasoning, ServiceTier: req.ServiceTier,
		Verbosity: req.Verbosity, CacheKey: req.CacheKey(), Ignored: req.Ignored, OfResponse: true,
	}
	if req.Encrypted {
		chat.ignore("include")
	}
	if req.Store != nil && *req.Store {
		chat.ignore("store")
	}
	if req.Instructions != nil && *req.Instructions != "" {
		chat.Messages = []Message{{Role: "system", Parts: []Part{{Text: *req.Instructions, At: "instructions"}}}}
	}
	err := chat.addItems(req.Input)
	slices.Sort(chat.Ignored)
	return chat, err
}

// checkChat refuses parameters that only a response can have.
func (req *ResponseRequest) checkChat() error {
	for _, only := range []struct {
		name string
		set  bool
	}{
		{"previous_response_id", req.Previous != ""}, {"conversation", req.Conversation != ""},
		{"background", req.Background}, {cacheOptions, req.NoGenerate}, {"input", req.Compaction != nil},
		{"tools", slices.ContainsFunc(req.Tools.Offered, func(t ClientTool) bool {
			return t.Namespace != "" ||
				t.Search
		})},
	} {
		if only.set {
			return unsupported(only.name, notInAChat(only.name))
		}
	}
	return nil
}

func notInAChat(what string) string {
	return what + ": this is for a response, and the answer here is a chat completion; send the request to /v1/responses"
}

func (req *ChatRequest) ignore(name string) {
	if !slices.Contains(req.Ignored, name) {
		req.Ignored = append(req.Ignored, name)
	}
}

// addItems adds the items of an input as messages, and checks that every call has its output and every output its call.
func (req *ChatRequest) addItems(input []InputItem) error {
	open := map[string]string{} // call → its place
	for _, in := range input {
		message, err := in.message()
		switch {
		case err != nil:
			return err
		case in.Type == itemReasoning:
			req.ignore("input.reasoning")
		case message.Role == "tool" && open[message.CallID] == "":
			return Invalid("tool_call_id_unknown", in.At+".call_id",
				fmt.Sprintf("%s: no call before it has the call_id %q", in.At, clip(message.CallID)))
		}
		for _, call := range message.Calls {
			open[call.ID] = in.At
		}
		delete(open, message.CallID)
		if message.Role != "" {
			req.Messages = append(req.Messages, message)
		}
	}
	if len(open) > 0 {
		at := slices.Min(slices.Collect(maps.Values(open)))
		return Invalid("tool_result_missing", at, at+": the input has no output of this call")
	}
	if len(req.Messages) == 0 {
		return Invalid("input_required", "input", "input must hold at least one message")
	}
	return nil
}

// message is the item as a message of a chat; its role is empty if a chat has no place for it.
func (in InputItem) message() (m Message, err error) {
	switch in.Type {
	case itemMessage:
		return Message{Role: in.Role, Parts: chatParts(in.At+".content", in.Content)}, nil
	case itemFunction, itemCustomCall:
		if in.Namespace != "" {
			return m, unsupported(in.At+".namespace", notInAChat(in.At+".namespace"))
		}
		call := ToolCall{ID: in.CallID, Name: in.Name, Arguments: in.Arguments.Text}
		if in.Type == itemCustomCall {
			call.Custom, call.Arguments = true, deref(in.Input)
		}
		return Message{Role: "assistant", Calls: []ToolCall{call}}, nil
	case "function_call_output", "custom_tool_call_output":
		m = Message{Role: "tool", CallID: in.CallID, Parts: chatParts(in.At+".output", in.Output.Parts)}
		if in.Output.Text != nil {
			m.Parts = []Part{{Text: *in.Output.Text, At: in.At + ".output"}}
		}
		return m, nil
	case itemReasoning, itemUpdate, "additional_tools": // their settings and tools are applied
		return m, nil
	}
	return m, unsupported(in.At, notInAChat(in.At))
}

func chatParts(at string, parts []ItemPart) (list []Part) {
	for i, part := range parts {
		place := fmt.Sprintf("%s[%d]", at, i)
		if part.Image != nil {
			place += ".image_url"
		}
		list = append(list, Part{Text: part.Text, Image: part.Image, At: place})
	}
	return list
}
