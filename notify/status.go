package notify

import (
	"strings"
	"unicode"
)

// statusLimit bounds a status in characters. systemd accepts datagrams of up to
// 4096 bytes; a reason and its remedy fit into the limit.
const statusLimit = 800

// statusLine makes one sd_notify(3) assignment of any text: systemd rejects a STATUS=
// that is not UTF-8, and a newline would begin another assignment.
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
