package setup

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
)

var (
	// linters keep their results for files that do not change: xo always, the others with --cache.
	linters = []string{"xo", "eslint", "prettier", "stylelint"}
	// reading are the options with which they write nothing but these results, where diff leaves them out.
	reading = []string{"--cache", "--cache-strategy", "--check", "--config", "-c", "--ext", "--max-warnings", "--quiet",
		"--no-error-on-unmatched-pattern", "--report-unused-disable-directives"}
)

// lint runs the linters with which the script "test" of package.json begins. They take longer than many tests. It runs
// no other command of the script, so no test.
func lint(dir fs.FS) (run string) {
	var p struct {
		Scripts struct {
			Test string `json:"test"`
		} `json:"scripts"`
	}
	text, err := readBounded(dir, "package.json")
	if err != nil || json.Unmarshal(text, &p) != nil { // npm names the fault
		return ""
	}
	for command := range strings.SplitSeq(p.Scripts.Test, "&&") {
		if command = strings.TrimSpace(command); !isLinter(command) {
			break
		}
		run += "\n" + bounded("sh -c "+quote(command), "a linter of package.json fails")
	}
	return run
}

// isLinter reports whether a shell runs one linter by the command, and nothing else, and the linter only reads.
func isLinter(command string) bool {
	words := strings.Fields(command)
	if len(words) == 0 || !slices.Contains(linters, words[0]) || strings.ContainsAny(command, ";|&<>$`()\\\n*?[{~") {
		return false
	}
	keeps := words[0] == "xo"
	for _, word := range words[1:] {
		option, _, _ := strings.Cut(strings.Trim(word, `'"`), "=")
		if strings.HasPrefix(option, "-") && !slices.Contains(reading, option) {
			return false
		}
		keeps = keeps || option == "--cache"
	}
	return keeps
}
