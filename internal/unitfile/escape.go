package unitfile

import "strings"

// plainWord has the characters that mean nothing to systemd in any place of a word.
const plainWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/.,:=+-@"

// specifiers are the specifiers of systemd.unit(5): a value of any setting has %% for a percent sign.
var specifiers = strings.NewReplacer("%", "%%")

// escapes are the escapes of a word in double quotes (systemd.syntax(7), "Quoting"), and of specifiers.
var escapes = strings.NewReplacer("%", "%%", `\`, `\\`, `"`, `\"`, "\t", `\t`)

// Word is one word of a list of words, such as ExecStart= and Environment=. In ExecStart= the prefix ":" of the
// command leaves "$" as it is (systemd.service(5), "Command lines").
func Word(text string) string {
	if text != "" && strings.Trim(text, plainWord) == "" {
		return text
	}
	return `"` + escapes.Replace(text) + `"`
}

// Words are a list of words.
func Words(texts ...string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = Word(text)
	}
	return strings.Join(list, " ")
}

// Command is a command line in which "$" means nothing.
func Command(args []string) string { return Words(append([]string{":" + args[0]}, args[1:]...)...) }

// Path is a word that is a path. systemd unquotes paths and keeps backslashes in them, so a valid path has none
// (CheckPath), nor a double quote.
func Path(text string) string {
	if strings.Trim(text, plainWord) == "" {
		return text
	}
	return `"` + specifiers.Replace(text) + `"`
}

// Text is a whole value that systemd does not split into words, such as Description=.
func Text(value string) string { return specifiers.Replace(value) }
