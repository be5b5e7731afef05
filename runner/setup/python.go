package setup

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// installed has the directory of programs that scripts install for themselves.
const installed = "~/.local/bin"

// uv installs uv.lock with all members, extras and groups, or with the default ones if those contradict each other.
func uv(_ fs.FS, names map[string]bool) (*Part, error) {
	if !names["uv.lock"] || !names["pyproject.toml"] {
		return nil, nil
	}
	return &Part{
		Manifest: "uv.lock",
		Run: fromPyPI("uv") + `
sync() {
  uv sync --frozen --compile-bytecode --all-packages ${CODEX_RUNNER_STORE:+--offline --no-index --find-links "$CODEX_RUNNER_STORE"} "$@"
}
sync --all-extras --all-groups || sync
` + compiled(compiledPackages),
		Inputs: []string{"uv.lock", "uv.toml", ".python-version", "**/pyproject.toml"},
		Path:   []string{".venv/bin", installed}, Needs: []string{"python3", "uv or pip"}, Tools: []string{"uv"},
		Env: map[string]string{"UV_LINK_MODE": "copy", "UV_NO_PROGRESS": "1"},
	}, nil
}

// compiled has Python compile the project and its tests, except for paths of a regular expression. It imports none of
// them: a build may have the network of the host, and a test may use what it finds there while it is imported. Without
// -I a module of the project could take the place of one of Python's own, and without -S a package could run code.
func compiled(except string) string {
	return bounded(".venv/bin/python -I -S -W ignore -m compileall -q -x "+quote(except)+" .",
		"some Python files do not compile")
}

const (
	// packages are not the project's own files.
	packages = `/node_modules/`
	// compiledPackages were compiled when they were installed.
	compiledPackages = `/(node_modules|\.venv)/`
)

// bounded is a command that saves later ones time, and is no must: it has five minutes, and may fail.
func bounded(command, failed string) string {
	return "timeout --kill-after=10s 5m " + command + " >/dev/null || echo " + quote(failed)
}

// poetry installs the project into a .venv in its directory. It is a new one: poetry leaves the packages there that the
// lock of an earlier commit had.
func poetry(dir fs.FS, names map[string]bool) (*Part, error) {
	if !names["pyproject.toml"] {
		return nil, nil
	}
	p, err := readPyproject(dir)
	if err != nil || p.Tool.Poetry == nil && !names["poetry.lock"] {
		return nil, err
	}
	return &Part{
		Manifest: "pyproject.toml",
		Run: fromPyPI("poetry") + `
rm -rf .venv
poetry install --no-interaction --all-extras
` + compiled(packages),
		Inputs: []string{"pyproject.toml", "poetry.lock", "poetry.toml"},
		Path:   []string{".venv/bin", installed}, Needs: []string{"python3", "poetry or pip"},
		Tools: []string{"poetry"}, Env: map[string]string{"POETRY_VIRTUALENVS_IN_PROJECT": "true"},
	}, nil
}

// fromPyPI has a program installed that the host does not have.
func fromPyPI(program string) string {
	return fmt.Sprintf(`command -v %[1]s >/dev/null || {
  python3 -m venv --without-pip "$HOME/.local/share/%[1]s"
  python3 -m pip --python "$HOME/.local/share/%[1]s/bin/python" install --quiet %[1]s
  mkdir -p "$HOME/.local/bin"
  ln -sf "../share/%[1]s/bin/%[1]s" "$HOME/.local/bin/%[1]s"
}`, program)
}

// requirementFiles have packages that the project itself does not name.
var requirementFiles = []string{
	"requirements.txt", "requirements-dev.txt", "requirements-test.txt", "requirements-tests.txt", "requirements_dev.txt",
	"requirements_test.txt", "dev-requirements.txt", "test-requirements.txt", "requirements/dev.txt",
	"requirements/test.txt", "requirements/tests.txt", "requirements/testing.txt", "tests/requirements.txt",
}

// forTests are the names of extras and groups that tests need.
var forTests = []string{"dev", "develop", "development", "test", "testing", "tests"}

// venv installs the project and its lists of requirements into a .venv in its directory.
func venv(dir fs.FS, names map[string]bool) (*Part, error) {
	target, err := project(dir, names)
	if err != nil {
		return nil, err
	}
	commands, files := requirements(dir, target)
	if target != nil {
		manifest := "pyproject.toml"
		if !names[manifest] {
			manifest = "setup.py"
		}
		files = append([]string{manifest, "pyproject.toml", "setup.py", "setup.cfg"}, files...)
	}
	if len(files) == 0 {
		return nil, nil
	}
	return &Part{
		Manifest: files[0],
		// The host's pip is for a store of packages, which may have none. Of the network the newest one, as the project
		// may need it.
		Run: `python=$(command -v python3)
$python -m venv --clear --without-pip .venv
echo '*' >.venv/.gitignore
pip="$python -m pip --python .venv/bin/python"
test -n "$CODEX_RUNNER_STORE" || { $pip install --quiet --upgrade pip; pip='.venv/bin/python -m pip'; }
` + commands + withPytest(dir) + compiled(compiledPackages),
		Inputs: append(files, "*requirements*.txt", "requirements/*.txt"),
		Path:   []string{".venv/bin"}, Needs: []string{"python3", "pip"},
		Env: map[string]string{"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"},
	}, nil
}

// requirements returns the commands that install the packages of pip's arguments and of all lists of requirements,
// and these lists. A list with hashes has a command of its own: pip wants hashes of all packages then, and a project
// has none.
func requirements(dir fs.FS, target []string) (commands string, files []string) {
	for _, file := range requirementFiles {
		if _, err := fs.Stat(dir, file); err != nil {
			continue
		}
		files = append(files, file)
		if contains(dir, file, "--hash=") {
			commands += "$pip install --quiet --requirement " + file + "\n"
		} else {
			target = append(target, "--requirement "+file)
		}
	}
	if len(target) > 0 {
		commands += "$pip install --quiet " + strings.Join(target, " ") + "\n"
	}
	return commands, files
}

// pytestFiles have settings of pytest, after these words.
var pytestFiles = map[string]string{
	"pytest.ini": "", "conftest.py": "", "tests/conftest.py": "", "pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]",
	"setup.cfg": "[tool:pytest]",
}

// withPytest installs pytest for a project that has settings of it, and leaves it to people to install it.
func withPytest(dir fs.FS) string {
	for file, words := range pytestFiles {
		if contains(dir, file, words) {
			return "test -e .venv/bin/pytest || $pip install --quiet pytest || echo 'pytest is not there'\n"
		}
	}
	return ""
}

// contains reports whether the first MiB of a file has the words.
func contains(dir fs.FS, name, words string) bool {
	file, err := dir.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(file, 1<<20))
	return err == nil && bytes.Contains(text, []byte(words))
}

// project returns pip's arguments for the project itself, with the extras and groups that tests need, or nil if the
// directory has only settings of tools.
func project(dir fs.FS, names map[string]bool) (args []string, err error) {
	var p pyproject
	if names["pyproject.toml"] {
		if p, err = readPyproject(dir); err != nil {
			return nil, err
		}
	}
	if p.Project == nil && p.BuildSystem == nil && !names["setup.py"] {
		return groups(p), nil
	}
	var extras []string
	if p.Project != nil {
		extras = wanted(p.Project.Extras)
	}
	if names["setup.cfg"] && len(extras) == 0 {
		extras = extrasOfSetupCfg(dir)
	}
	target := "--editable ."
	if len(extras) > 0 {
		target = "--editable '.[" + strings.Join(extras, ",") + "]'"
	}
	return append([]string{target}, groups(p)...), nil
}

func groups(p pyproject) (args []string) {
	for _, group := range wanted(p.Groups) {
		args = append(args, "--group "+group)
	}
	return args
}

func wanted[V any](all map[string]V) []string {
	return slices.Collect(func(yield func(string) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if slices.Contains(forTests, strings.ToLower(name)) && !yield(name) {
				return
			}
		}
	})
}

// pyproject has the tables of pyproject.toml that decide.
type pyproject struct {
	Project *struct {
		Extras map[string]any `toml:"optional-dependencies"`
	} `toml:"project"`
	BuildSystem map[string]any `toml:"build-system"`
	Groups      map[string]any `toml:"dependency-groups"`
	Tool        struct {
		Poetry map[string]any `toml:"poetry"`
	} `toml:"tool"`
}

func readPyproject(dir fs.FS) (p pyproject, err error) {
	text, err := readBounded(dir, "pyproject.toml")
	if err == nil {
		err = toml.Unmarshal(text, &p)
	}
	if err != nil {
		return p, fmt.Errorf("pyproject.toml: %w", err)
	}
	return p, nil
}

// extrasOfSetupCfg reads the names of the section options.extras_require. Their values go on in indented lines.
func extrasOfSetupCfg(dir fs.FS) []string {
	text, err := readBounded(dir, "setup.cfg")
	if err != nil {
		return nil
	}
	extras, inside := map[string]bool{}, false
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		name, _, isValue := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "["):
			inside = strings.TrimSpace(line) == "[options.extras_require]"
		case inside && isValue && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t"):
			extras[strings.TrimSpace(name)] = true
		}
	}
	return wanted(extras)
}

// conda installs environment.yml into a .conda in its directory.
func conda(_ fs.FS, names map[string]bool) (*Part, error) {
	for _, file := range []string{"environment.yml", "environment.yaml"} {
		if names[file] {
			return &Part{
				Manifest: file,
				Run: `micromamba create --yes --no-rc --always-copy --root-prefix "$HOME/.mamba" \
  --prefix "$PWD/.conda" --file ` + file + ` \
  ${CODEX_RUNNER_STORE:+--offline --override-channels --channel "file://$CODEX_RUNNER_STORE"}
echo '*' >.conda/.gitignore`,
				Inputs: []string{file}, Path: []string{".conda/bin"}, Needs: []string{"micromamba"},
			}, nil
		}
	}
	return nil, nil
}
