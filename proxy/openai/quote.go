package openai

import (
	"html"
	"strings"
	"unicode"

	"codex-proxy/internal/lazyregexp"
)

// Clip bounds the text of a client that an error repeats.
func Clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

var (
	// document is the beginning of a page: only there is < a tag, and not a sign of the message.
	document = lazyregexp.New(`(?i)<(?:!doctype|html|head|body|title|h1|center|pre|div|p)\b`)
	title    = lazyregexp.New(`(?is)<title[^>]*>(.*?)</title>`)
	unseen   = lazyregexp.New(`(?is)<(?:script|style)\b.*?(?:</(?:script|style)>|$)|<!--.*?(?:-->|$)`)
	tag      = lazyregexp.New(`(?s)<[^>]*(?:>|$)`)
	// address is a URL, an IPv4 address, or a host with a port.
	address = lazyregexp.New(`(?i)\b(?:https?|wss?)://[^\s"'<>)\]}]*[^\s"'<>)\]}.,;:!?]|` +
		`\b(?:\d{1,3}\.){3}\d{1,3}\b(?::\d{1,5}\b)?|\b(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+):\d{2,5}\b|` +
		`\[[0-9a-f]*:[0-9a-f:.]*\]:\d{1,5}\b`)
	// secret is an API key by its beginning, as OpenAI, Groq, xAI, Google and Hugging Face make them, in a URL, or
	// behind the words of OpenAI.
	secret = lazyregexp.New(`\b((?i:sk-|bearer )|gsk_|xai-|AIza|hf_)[\w.*~+/=-]{4,}|` +
		`([?&](?i:[\w-]*key|[\w-]*token|sig|signature)=)[^&\s"'<>,]+|` +
		`((?i:key provided: ?["']?))[\w.*~+/=-]*[\w*~+/=-]`)
)

// CleanWords is the message of another program as an error may quote it: one line of at most 500 bytes, without HTML
// (a page is its title), control characters, addresses and API keys.
func CleanWords(s string) string {
	if document.MatchString(s) {
		s = textOfPage(s)
	}
	s = address.ReplaceAllString(MaskSecrets(s), "[address]")
	return Bounded(oneLine(s))
}

// MaskSecrets replaces all API keys in s but their beginning.
func MaskSecrets(s string) string { return secret.ReplaceAllString(s, "${1}${2}${3}…") }

func textOfPage(s string) string {
	if m := title.FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	return html.UnescapeString(tag.ReplaceAllString(unseen.ReplaceAllString(s, " "), " "))
}

// oneLine replaces every run of spaces and of characters that have no picture by one space.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

// maxQuoted bounds a string from elsewhere in a message.
const maxQuoted = 500

// Bounded is s as a message may quote it: cut off after 500 bytes.
func Bounded(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}
