package openai

import (
	"html"
	"regexp"
	"strings"
	"unicode"
)

var (
	// document is the beginning of a page: only there is < a tag, and not a sign of the message.
	document = regexp.MustCompile(`(?i)<(?:!doctype|html|head|body|title|h1|center|pre|div|p)\b`)
	title    = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	unseen   = regexp.MustCompile(`(?is)<(?:script|style)\b.*?(?:</(?:script|style)>|$)|<!--.*?(?:-->|$)`)
	tag      = regexp.MustCompile(`(?s)<[^>]*(?:>|$)`)
	address  = regexp.MustCompile(`(?i)\b(?:https?|wss?)://[^\s"'<>)\]}]*[^\s"'<>)\]}.,;:!?]`)
	secret   = regexp.MustCompile(`(?i)\b(sk-|bearer )[\w.*~+/=-]{4,}`)
)

// CleanWords is the message of another program as an error may quote it: one line of at most 500 bytes, without HTML
// (a page is its title), control characters, URLs and API keys.
func CleanWords(s string) string {
	if document.MatchString(s) {
		s = textOfPage(s)
	}
	s = address.ReplaceAllString(MaskSecrets(s), "[address]")
	return Bounded(oneLine(s))
}

// MaskSecrets replaces all API keys in s but their beginning.
func MaskSecrets(s string) string { return secret.ReplaceAllString(s, "${1}…") }

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
