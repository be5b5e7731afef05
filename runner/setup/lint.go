package setup

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
)

// linter matches the commands of linters that keep what they have found, for the files that do not change.
var linter = regexp.MustCompile(`^(?:xo\b|(?:eslint|prettier|stylelint)\s(?:.*\s)?--cache\b)`)

// lint runs such linters of the script "test" of package.json. They take longer than many tests, and run none of them.
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
		if command = strings.TrimSpace(command); linter.MatchString(command) {
			run += "\n" + bounded("sh -c "+quote(command), "a linter of package.json fails")
		}
	}
	return run
}
