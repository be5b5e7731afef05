package jsonbody

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// Path is the pointer in the form of an error's param: messages[0].content.
func Path(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(openai.Clip(token))
	}
	return b.String()
}

// ClipPath bounds the path of a deep place in a schema.
func ClipPath(at string) string {
	const most = 300
	if len(at) <= most {
		return at
	}
	return strings.ToValidUTF8(at[:most], "") + "…"
}
