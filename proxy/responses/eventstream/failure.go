package eventstream

import (
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/wire"
)

// codeQuota is, like CodeContextLength, a code of OpenAI that the reference omits for responses. The codex CLI
// recognises by them that the conversation is too long, and that another attempt is in vain.
const codeQuota = "insufficient_quota"

// failureOf maps an error to the few codes of responses.
func failureOf(err *openai.Error) *wire.Failure {
	code := "server_error"
	switch {
	case err.Code == openai.CodeContextLength:
		code = openai.CodeContextLength
	case err.Type == openai.TypeQuota:
		code = codeQuota
	case err.Type == openai.TypeRateLimit:
		code = "rate_limit_exceeded"
	case err.Type == openai.TypeInvalidRequest:
		code = "invalid_prompt"
	}
	return &wire.Failure{Code: code, Message: err.Message}
}
