package wire

import (
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/parameter"
)

// DecodeInChat is Decode for a body in place of a chat's, with a table of parameters. It also reports whether
// the client asks for the usage at the end of a stream.
func DecodeInChat(body []byte, r jsonbody.Reading, table jsonbody.Params) (req *Request, usage bool, err error) {
	var raw rawResponse
	if err := raw.decode(body); err != nil {
		return nil, false, err
	}
	delete(raw.Others, "messages") // they are null
	raw.Model = r.ModelOf(raw.Model)
	if err := parameter.CheckModel(raw.Model); err != nil {
		return nil, false, err
	}
	if usage, err = raw.includesUsage(); err != nil {
		return nil, false, err
	}
	req, err = raw.decodedBy(r, table)
	return req, usage, err
}

// includesUsage reads stream_options as a chat has it, of which nothing is ignored then.
func (raw rawResponse) includesUsage() (bool, error) {
	value, ok := raw.Others["stream_options"]
	if !ok {
		return false, nil
	}
	delete(raw.Others, "stream_options")
	var options *parameter.StreamOptions
	if jsonbody.Unmarshal([]byte(value), &options) != nil {
		return false, openai.Invalid("invalid_type", "stream_options",
			"stream_options must be an object of the boolean include_usage")
	}
	return options != nil && options.IncludeUsage, nil
}
