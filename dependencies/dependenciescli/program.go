package dependenciescli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"codex-proxy/dependencies/dependenciescheck"
)

// program is a server that a preset names without its directory.
type program struct {
	beside []string // further programs of it that the preset names
	dirs   []string // patterns of directories in addition to PATH, in which the highest version counts
	get    string   // how an operator gets it
}

var programs = map[string]program{
	"temporal": {get: "install Temporal's CLI, see https://docs.temporal.io/cli, into /usr/local/bin"},
	"postgres": {
		beside: []string{"initdb", "pg_isready", "psql"},
		dirs:   []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"},
		get:    "apt-get install postgresql, or dnf install postgresql-server",
	},
}

// place replaces the name of a preset's program, the first word of its command, and the names of the programs beside
// it by their paths. It changes nothing in a preset that names a path.
func place(text, searchPath string) (string, error) {
	match := commandName.FindStringSubmatchIndex(text)
	if match == nil {
		return text, nil
	}
	name := text[match[2]:match[3]]
	p := programs[name]
	path, err := p.find(name, searchPath)
	if err != nil {
		return "", err
	}
	text = text[:match[2]] + path + text[match[3]:]
	for _, other := range p.beside {
		at, err := besideOf(path, other, searchPath)
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, p.get)
		}
		text = replaceWord(text, other, at)
	}
	return text, nil
}

// commandName matches a command with a program without a directory.
var commandName = regexp.MustCompile(`(?m)^command = \[\s*"([^"/]+)"`)

// replaceWord replaces the word in all lines that are no comments. The word ends at a space or a quote.
func replaceWord(text, word, path string) string {
	whole := regexp.MustCompile(`(^|[\s":])` + regexp.QuoteMeta(word) + `([\s"])`)
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			line = whole.ReplaceAllString(line, "${1}"+path+"${2}")
		}
		out.WriteString(line)
	}
	return out.String()
}

// find returns the path of the program called name.
func (p program) find(name, searchPath string) (string, error) {
	var faults []string
	for _, dir := range append(filepath.SplitList(searchPath), p.versions()...) {
		path := filepath.Join(dir, name)
		err := dependenciescheck.Runnable(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, fmt.Sprintf("%s: %v", path, err))
		}
	}
	text := fmt.Sprintf("the program %s is not installed", name)
	if len(faults) > 0 {
		text = fmt.Sprintf("cannot use the program %s (%s)", name, strings.Join(faults, "; "))
	}
	if p.get != "" {
		text += ": " + p.get
	}
	return "", errors.New(text)
}

var number = regexp.MustCompile(`\d+`)

// versions are the directories of the patterns, the highest version first.
func (p program) versions() (all []string) {
	version := map[string]int{}
	for _, pattern := range p.dirs {
		before, _, _ := strings.Cut(pattern, "*")
		dirs, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, dir := range dirs {
			version[dir], _ = strconv.Atoi(number.FindString(dir[len(before):])) // without a number: 0
		}
		all = append(all, dirs...)
	}
	slices.SortStableFunc(all, func(a, b string) int { return version[b] - version[a] })
	return all
}

// besideOf returns the path of a program of the same package: distributions put starters of their own on PATH, which
// choose a version.
func besideOf(path, name, searchPath string) (string, error) {
	dirs := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		dirs = append([]string{filepath.Dir(target)}, dirs...)
	}
	for _, dir := range append(dirs, filepath.SplitList(searchPath)...) {
		if at := filepath.Join(dir, name); dependenciescheck.Runnable(at) == nil {
			return at, nil
		}
	}
	return "", fmt.Errorf("the program %s is missing beside %s", name, path)
}
