package setup

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Part makes one directory ready for one language.
type Part struct {
	Way      string // its name, such as "npm"
	Language string // such as "node"
	Dir      string // of the manifests, relative to the checkout; "." for its top
	Manifest string // that decided, relative to the checkout
	// Run, Test, Inputs, Path and Env are as in Script, relative to Dir. Run is empty if nothing is installed
	// beforehand.
	Run    string
	Test   string
	Inputs []string
	Path   []string
	Env    map[string]string
	// Needs are the programs that the host must have, "a or b" one of the two, and Tools others with a version that
	// matters.
	Needs, Tools []string
	without      string // why Run is empty, or ""
}

// way is how a directory with certain manifests is made ready.
type way struct {
	name, language string
	// part returns nil if the manifests are not there.
	part func(dir fs.FS, names map[string]bool) (*Part, error)
}

// ways are all ways. Of each language the first one that fits is taken: exact versions precede.
var ways = []way{
	{"conda", "conda", conda}, {"uv", "python", uv}, {"poetry", "python", poetry}, {"venv", "python", venv},
	{"pnpm", "node", pnpm}, {"yarn", "node", yarn}, {"npm", "node", npm},
	{"go", "go", goModule}, {"cargo", "rust", cargo}, {"maven", "java", maven}, {"gradle", "java", gradle},
	{"composer", "php", composer}, {"bundler", "ruby", bundler},
}

// The bounds of the search for manifests.
const (
	maxDepth       = 4
	maxDirectories = 5000
	maxParts       = 16
)

// foreign are directories with manifests that are no part of the project.
var foreign = []string{"node_modules", "vendor", "third_party", "testdata", "fixtures", "__fixtures__", "examples",
	"example", "templates", "target", "build", "dist"}

// Detect returns how the repository is made ready by the manifests in it, by directory. It takes one way for each
// language in a directory, and none where a directory above it has one: workspaces cover their members.
func Detect(repository fs.FS) (parts []Part, err error) {
	visited := 0
	err = fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if visited++; name != "." && outside(name) || visited > maxDirectories {
			return fs.SkipDir
		}
		found, err := detectIn(repository, name, parts)
		if parts = append(parts, found...); err == nil && len(parts) > maxParts {
			err = fmt.Errorf("more than %d directories have manifests: write %s with a script that makes ready those you "+
				"need", maxParts, File)
		}
		return err
	})
	if err == nil && len(parts) == 0 {
		parts, err = native(repository)
	}
	return parts, err
}

// Fits reports whether a file of that name in a repository may be a manifest that Detect finds, or File: a repository
// without one has no set-up that does anything.
func Fits(name string) bool {
	base, dir := path.Base(name), path.Dir(name)
	switch {
	case name == File:
	case slices.Contains(manifests, base):
	case strings.HasSuffix(base, ".txt") && strings.Contains(name, "requirements"):
		dir = path.Dir(dir) // the list may be in a directory of its own
	default:
		return false
	}
	for ; dir != "."; dir = path.Dir(dir) {
		if outside(dir) {
			return false
		}
	}
	return true
}

// manifests are the names of the files that the ways look for, less lists of requirements.
var manifests = []string{
	"environment.yml", "environment.yaml", "pyproject.toml", "setup.py", "package.json", "go.mod", "go.work", "Cargo.toml",
	"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "composer.json", "Gemfile",
}

func outside(dir string) bool {
	base := path.Base(dir)
	return strings.HasPrefix(base, ".") || slices.Contains(foreign, base) || strings.Count(dir, "/") >= maxDepth
}

// covered is whether dir or a directory above it has a way for the language.
func covered(above []Part, language, dir string) bool {
	return slices.ContainsFunc(above, func(p Part) bool {
		return p.Language == language && (p.Dir == "." || p.Dir == dir || strings.HasPrefix(dir, p.Dir+"/"))
	})
}

// detectIn returns the parts of one directory; above are the parts found before.
func detectIn(repository fs.FS, dir string, above []Part) (parts []Part, err error) {
	entries, err := fs.ReadDir(repository, dir)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	files, err := fs.Sub(repository, dir)
	if err != nil {
		return nil, err
	}
	for _, w := range ways {
		if covered(append(above, parts...), w.language, dir) {
			continue
		}
		p, err := w.part(files, names)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if p != nil {
			p.Way, p.Language, p.Dir, p.Manifest = w.name, w.language, dir, path.Join(dir, p.Manifest)
			parts = append(parts, *p)
		}
	}
	return parts, nil
}
