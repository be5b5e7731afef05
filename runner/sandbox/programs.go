package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// goTools is where Go says that it is to be installed (https://go.dev/doc/install). It is last in PATH, as there.
const goTools = "/usr/local/go/bin"

// UnitPath is PATH of units, unless systemd was built with another one (systemd.exec(5)).
const UnitPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

// Programs is where a sandbox looks for programs.
type Programs struct {
	First      []string // path of [sandbox]
	Toolchains []Toolchain
	Usual      string // PATH of the unit
}

// Path is PATH: the directories of the settings, the toolchains of the user and of the settings, the usual directories
// and Go.
func (p Programs) Path() string {
	var all []string
	for _, dir := range p.First {
		all = append(all, p.Seen(dir))
	}
	for _, user := range []bool{true, false} {
		for _, t := range p.Toolchains {
			if t.User == user && t.Fault == "" {
				all = append(all, t.programs()...)
			}
		}
	}
	all = append(all, filepath.SplitList(p.Usual)...)
	if info, err := os.Stat(goTools); err == nil && info.IsDir() {
		all = append(all, goTools)
	}
	var once []string
	for _, dir := range all {
		if !slices.Contains(once, dir) && !strings.Contains(dir, string(filepath.ListSeparator)) {
			once = append(once, dir)
		}
	}
	return strings.Join(once, string(filepath.ListSeparator))
}

// Shared leaves out the toolchains of a user, which other users do not have.
func (p Programs) Shared() Programs {
	p.Toolchains = slices.DeleteFunc(slices.Clone(p.Toolchains), func(t Toolchain) bool { return t.User })
	return p
}

// Env has the variables by which programs of toolchains find the rest of them.
func (p Programs) Env() map[string]string {
	env := map[string]string{}
	for _, t := range p.Toolchains {
		if _, has := env["RUSTUP_HOME"]; !has && t.Fault == "" && t.has("toolchains") && t.has("settings.toml") {
			env["RUSTUP_HOME"] = t.Seen // https://rust-lang.github.io/rustup/environment-variables.html
		}
	}
	return env
}

// Faults names the toolchains that are not shown, or is "".
func (p Programs) Faults() string {
	var faults []string
	for _, t := range p.Toolchains {
		if t.Fault != "" {
			faults = append(faults, t.Fault)
		}
	}
	return strings.Join(faults, "; ")
}

// Seen is the path in the sandbox of a program that is named by its path on the host.
func (p Programs) Seen(path string) string {
	for _, t := range p.Toolchains {
		if t.Fault == "" && t.Hidden() && within(path, t.Dir) {
			return t.Seen + strings.TrimPrefix(path, t.Dir)
		}
	}
	return path
}

func (t Toolchain) has(name string) bool {
	_, err := os.Stat(filepath.Join(t.Seen, name))
	return err == nil
}

// layouts are the places of programs in toolchains: the first one that matches counts. in is the end of the path of
// the toolchain, and newest takes one of several versions.
var layouts = []struct {
	in, glob string
	newest   bool
}{
	{"", "candidates/*/current/bin", false}, // sdkman
	{"", "*/current/bin", false},
	{"", "versions/node/*/bin", true}, // nvm
	{"", "node/*/bin", true},
	{"", "versions/*/bin", true}, // pyenv
	{"/" + pyenvVersions, "*/bin", true},
	{"", "bin", false},
}

// mostPrograms bounds the directories of one toolchain in PATH.
const mostPrograms = 64

// programs are the directories of a toolchain with programs; the toolchain itself if it has none that is known.
func (t Toolchain) programs() []string {
	if t.has("toolchains") && t.has("settings.toml") {
		return nil // rustup: its programs are in ~/.cargo/bin
	}
	for _, layout := range layouts {
		if !strings.HasSuffix(t.Seen, layout.in) {
			continue
		}
		found, err := filepath.Glob(filepath.Join(quoted(t.Seen), layout.glob))
		if err != nil || len(found) == 0 {
			continue
		}
		if layout.newest {
			return []string{slices.MaxFunc(found, byVersion)}
		}
		return found[:min(len(found), mostPrograms)]
	}
	return []string{t.Seen}
}

// quoted is a path of which path.Match takes each character for itself.
func quoted(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// byVersion orders paths with numbers in them: v9 is before v10.
func byVersion(a, b string) int {
	return cmp.Or(slices.Compare(numbers(a), numbers(b)), cmp.Compare(a, b))
}

func numbers(text string) (all []int) {
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(field)
		all = append(all, n)
	}
	return all
}
