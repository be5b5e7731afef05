package main

import (
	"os"
	"regexp"
	"strings"
)

var directive = regexp.MustCompile(`^[A-Z][A-Za-z]+=`)

// directives are the directives of a unit file that have a comment, with it.
func directives(unit string) (string, error) {
	text, err := os.ReadFile("packaging/systemd/" + unit)
	if err != nil {
		return "", err
	}
	all := []string{"# DIRECTIVES"}
	var comment, names []string
	for _, row := range append(lines(string(text)), "") {
		words, isComment := strings.CutPrefix(row, "#")
		if comment != nil && names != nil && (isComment || !directive.MatchString(row)) {
			meaning := within + marked(strings.TrimSpace(strings.Join(comment, "")))
			all = append(all, item(strings.Join(names, " "), meaning))
		}
		switch {
		case isComment:
			if names != nil {
				comment, names = nil, nil
			}
			comment = append(comment, words)
		case !directive.MatchString(row):
			comment, names = nil, nil
		case comment != nil && names == nil:
			name, _, _ := strings.Cut(row, "=")
			names = []string{name + "="}
		}
	}
	return strings.Join(all, "\n\n"), nil
}
