package dependency

import "strings"

// plainWord has the characters that mean nothing to systemd in any place of a word.
const plainWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.,:=+-@"

// specifiers are those of systemd.unit(5): a value of any setting has %% for a percent sign.
var specifiers = strings.NewReplacer("%", "%%")

// escapes are those of a word in double quotes (systemd.syntax(7), "Quoting"), and of specifiers.
var escapes = strings.NewReplacer("%", "%%", `\`, `\\`, `"`, `\"`, "\t", `\t`)

// word is one word of a list of words, such as ExecStart= and Environment=. In ExecStart= the prefix ":" of the
// command leaves "$" as it is (systemd.service(5), "Command lines").
func word(text string) string {
	if text != "" && strings.Trim(text, plainWord) == "" {
		return text
	}
	return `"` + escapes.Replace(text) + `"`
}

// words are a list of words.
func words(texts ...string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = word(text)
	}
	return strings.Join(list, " ")
}

// path is a word that is a path. systemd unquotes paths and keeps backslashes in them, so a valid path has none
// (checkPath), nor a double quote.
func path(text string) string {
	if strings.Trim(text, plainWord) == "" {
		return text
	}
	return `"` + specifiers.Replace(text) + `"`
}

// text is a whole value that systemd does not split into words, such as Description=.
func text(value string) string { return specifiers.Replace(value) }
