package wire

import (
	"fmt"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// hostedIncludes are the values of include for hosted tools, which are not served, and for input images, which the list
// of input items always has.
var hostedIncludes = []string{
	"file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
	"message.input_image.image_url",
	"computer_call_output.output.image_url", "code_interpreter_call.outputs",
}

func (raw rawResponse) applyInclude(req *Request) error {
	if len(raw.Include) > jsonbody.MaxList {
		return openai.Invalid("invalid_value", "include", fmt.Sprintf("include must not hold more than %d values",
			jsonbody.MaxList))
	}
	encrypted, ignored, err := readIncludes(raw.Include)
	req.Encrypted = encrypted
	if ignored {
		req.Ignored = append(req.Ignored, "include")
	}
	return err
}

// IncludesEncrypted reports whether the values of include have the encrypted reasoning. The error is an *Error.
func IncludesEncrypted(values []string) (bool, error) {
	encrypted, _, err := readIncludes(values)
	return encrypted, err
}

func readIncludes(values []string) (encrypted, ignored bool, err error) {
	for i, value := range values {
		at := fmt.Sprintf("include[%d]", i)
		switch {
		case value == "reasoning.encrypted_content":
			encrypted = true
		case slices.Contains(hostedIncludes, value):
			ignored = true
		case value == "message.output_text.logprobs":
			return false, false, openai.Unsupported(at, at+": codex reports no logprobs; leave it out")
		default:
			return false, false, openai.Invalid("invalid_value", at, fmt.Sprintf("%s: there is no %q", at,
				openai.Clip(value)))
		}
	}
	return encrypted, ignored, nil
}
