package wire

import (
	"fmt"
	"maps"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/responses/wire"
)

// DecodeChatOrResponse is Decode for clients that may send the body of a response in place of a chat's, with input and
// without messages, and read a chat completion as the answer. Cursor does so for the names of models that it knows
// (gabrii/Cursor-Azure-GPT-5, issue 69).
func DecodeChatOrResponse(body []byte, r jsonbody.Reading) (*Request, error) {
	var raw rawChat
	if err := jsonbody.Decode(body, &raw); err != nil {
		return nil, err
	}
	if _, isResponse := raw.Others["input"]; isResponse && raw.Messages == nil {
		return chatOfResponse(body, r)
	}
	return raw.validate(r)
}

// chatOfResponseParams are the parameters of a response in place of a chat: all parameters of a response, and the
// parameters of a chat that have no effect.
var chatOfResponseParams = func() jsonbody.Params {
	table := maps.Clone(wire.Params)
	for name, p := range chatParams {
		if _, there := table[name]; !there && p.Rule == jsonbody.Ignored {
			table[name] = p
		}
	}
	return table
}()

// chatOfResponse reads the body of a response as a chat.
func chatOfResponse(body []byte, r jsonbody.Reading) (*Request, error) {
	req, usage, err := wire.DecodeInChat(body, r, chatOfResponseParams)
	if err != nil {
		return nil, err
	}
	chat, err := chatOf(req)
	if err != nil {
		return nil, err
	}
	chat.IncludeUsage = usage
	return chat, nil
}

// chatOf converts the request to a chat, which cannot refer to stored objects or store any.
func chatOf(req *wire.Request) (*Request, error) {
	if err := checkChat(req); err != nil {
		return nil, err
	}
	chat := &Request{
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
		chat.Messages = []Message{{Role: "system", Parts: []media.Part{{Text: *req.Instructions, At: "instructions"}}}}
	}
	err := chat.addItems(req.Input)
	slices.Sort(chat.Ignored)
	return chat, err
}

// checkChat refuses parameters that only a response can have.
func checkChat(req *wire.Request) error {
	for _, only := range []struct {
		name string
		set  bool
	}{
		{"previous_response_id", req.Previous != ""}, {"conversation", req.Conversation != ""},
		{"background", req.Background}, {wire.CacheOptions, req.NoGenerate}, {"input", req.Compaction != nil},
		{"tools", slices.ContainsFunc(req.Tools.Offered, func(t clienttool.Tool) bool {
			return t.Namespace != "" ||
				t.Search
		})},
	} {
		if only.set {
			return openai.Unsupported(only.name, notInAChat(only.name))
		}
	}
	return nil
}

func notInAChat(what string) string {
	return what + ": this is for a response, and the answer here is a chat completion; send the request to /v1/responses"
}

func (req *Request) ignore(name string) {
	if !slices.Contains(req.Ignored, name) {
		req.Ignored = append(req.Ignored, name)
	}
}

// addItems adds the items of an input as messages, and checks that every call has its output and every output its call.
func (req *Request) addItems(input []wire.InputItem) error {
	open := map[string]string{} // call → its place
	for _, in := range input {
		message, err := messageOf(in)
		switch {
		case err != nil:
			return err
		case in.Type == wire.ItemReasoning:
			req.ignore("input.reasoning")
		case message.Role == "tool" && open[message.CallID] == "":
			return openai.Invalid("tool_call_id_unknown", in.At+".call_id",
				fmt.Sprintf("%s: no call before it has the call_id %q", in.At, openai.Clip(message.CallID)))
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
		return openai.Invalid("tool_result_missing", at, at+": the input has no output of this call")
	}
	if len(req.Messages) == 0 {
		return openai.Invalid("input_required", "input", "input must hold at least one message")
	}
	return nil
}

// messageOf is the item as a message of a chat; its role is empty if a chat has no place for it.
func messageOf(in wire.InputItem) (m Message, err error) {
	switch in.Type {
	case wire.ItemMessage:
		return Message{Role: in.Role, Parts: chatParts(in.At+".content", in.Content)}, nil
	case wire.ItemFunction, wire.ItemCustomCall:
		if in.Namespace != "" {
			return m, openai.Unsupported(in.At+".namespace", notInAChat(in.At+".namespace"))
		}
		call := clienttool.Call{ID: in.CallID, Name: in.Name, Arguments: in.Arguments.Text}
		if in.Type == wire.ItemCustomCall {
			call.Custom, call.Arguments = true, in.CustomInput()
		}
		return Message{Role: "assistant", Calls: []clienttool.Call{call}}, nil
	case "function_call_output", "custom_tool_call_output":
		m = Message{Role: "tool", CallID: in.CallID, Parts: chatParts(in.At+".output", in.Output.Parts)}
		if in.Output.Text != nil {
			m.Parts = []media.Part{{Text: *in.Output.Text, At: in.At + ".output"}}
		}
		return m, nil
	case wire.ItemReasoning, wire.ItemUpdate, "additional_tools": // their settings and tools are applied
		return m, nil
	}
	return m, openai.Unsupported(in.At, notInAChat(in.At))
}

func chatParts(at string, parts []wire.ItemPart) (list []media.Part) {
	for i, part := range parts {
		place := fmt.Sprintf("%s[%d]", at, i)
		if part.Image != nil {
			place += ".image_url"
		}
		list = append(list, media.Part{Text: part.Text, Image: part.Image, At: place})
	}
	return list
}
