package setup

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// Join returns one script that makes all parts ready, in their order, or nil if there are none.
func Join(parts []Part) *Script {
	if len(parts) == 0 {
		return nil
	}
	s := &Script{Name: parts[0].Way, Env: map[string]string{}}
	if len(parts) > 1 {
		s.Name = "several"
	}
	var run, test []string
	for _, p := range parts {
		run = append(run, p.script())
		if p.Test != "" {
			test = append(test, p.inDir(p.Test)+"\n")
		}
		for _, pattern := range p.Inputs {
			s.Inputs = append(s.Inputs, path.Join(escape(p.Dir), pattern))
		}
		for _, dir := range p.Path {
			if !strings.HasPrefix(dir, "~/") {
				dir = path.Join(p.Dir, dir)
			}
			s.Path = append(s.Path, dir)
		}
		maps.Copy(s.Env, p.Env)
		s.Needs = append(s.Needs, p.Needs...)
		s.Tools = append(s.Tools, p.Tools...)
	}
	s.Run = strings.Join(run, "\n") + "\n"
	if len(test) > 0 {
		s.Test = testEnd + strings.Join(test, "")
	}
	s.Inputs, s.Path, s.Needs, s.Tools = unique(s.Inputs), unique(s.Path), sorted(s.Needs), sorted(s.Tools)
	return s
}

// testEnd has the Tests of all parts end in a minute less than one Test has: their results so far are kept then.
const testEnd = "end=$(($(date +%s) + 240))\n"

// script is the part's own one, in its directory.
func (p Part) script() string {
	if p.Run == "" {
		return "# " + oneLine(p.Manifest) + ": " + cmp.Or(p.without, "nothing is installed beforehand")
	}
	return "# " + oneLine(p.Manifest) + "\n" + p.inDir(p.Run)
}

// inDir has a script run in the part's directory.
func (p Part) inDir(script string) string {
	if p.Dir == "." {
		return script
	}
	return "(\ncd " + quote(p.Dir) + "\n" + script + "\n)"
}

// oneLine keeps the name of a file from ending a comment.
func oneLine(name string) string { return strings.ReplaceAll(name, "\n", "?") }

// quote makes one word of a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// escape makes a pattern that matches the name alone.
func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

func unique(all []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s string) bool { defer func() { seen[s] = true }(); return seen[s] })
}

func sorted(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}
