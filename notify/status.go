package notify

import (
	"strings"
	"unicode"
)

// statusLimit bounds a status in characters. systemd takes datagrams of up to
// 4096 bytes; this is room for a reason and its remedy, whole.
const statusLimit = 800

// statusLine makes one sd_notify(3) assignment of a text that may hold anything:
// systemd rejects a STATUS= that is not UTF-8, and a newline in it would begin
// another assignment.
func statusLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > statusLimit {
		runes = append(runes[:statusLimit-1], '…')
	}
	return "STATUS=" + string(runes)
}
