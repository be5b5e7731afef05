package setup_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/setup"
)

// tree makes files from "path: content" lines; a path alone is an empty file.
func tree(files ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, f := range files {
		name, content, _ := strings.Cut(f, ": ")
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

func TestDetect(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string
		want  []string // manifest and a line of the script
	}{
		{"nothing", []string{"README.md", "docs/Makefile", "Makefile/x"}, nil},
		{"make", []string{"README.md", "Makefile"}, []string{"Makefile", "# Makefile: nothing is installed beforehand"}},
		{"cmake", []string{"CMakeLists.txt", "configure.ac", "Makefile"}, []string{"CMakeLists.txt", ": nothing is"}},
		{"packages, built by make", []string{"go.mod", "Makefile"}, []string{"go.mod", "go mod download"}},
		{"uv", []string{"uv.lock", "pyproject.toml: [project]"}, []string{"uv.lock", "sync --all-extras --all-groups || sync\ntimeout --kill-after=10s 5m .venv/bin/python -I -S -W ignore -m compileall -q -x"}},
		{"poetry", []string{"pyproject.toml: [tool.poetry]\nname = 'a'"}, []string{"pyproject.toml", "\nrm -rf .venv\npoetry install --no-interaction --all-extras"}},
		{"project with extras and groups", []string{"pyproject.toml: [project.optional-dependencies]\ntests = []\ndocs = []\n[dependency-groups]\ndev = []"},
			[]string{"pyproject.toml", "install --quiet --editable '.[tests]' --group dev"}},
		{"settings of tools alone", []string{"pyproject.toml: [tool.black]\n", "requirements.txt", "requirements-dev.txt"},
			[]string{"requirements.txt", "install --quiet --requirement requirements.txt --requirement requirements-dev.txt"}},
		{"requirements with hashes", []string{"setup.py", "requirements.txt: a==1 --hash=sha256:0", "requirements-dev.txt: b"},
			[]string{"setup.py", "$pip install --quiet --requirement requirements.txt\n$pip install --quiet --editable . --requirement requirements-dev.txt\n"}},
		{"pytest without a requirement", []string{"setup.py", "tests/conftest.py"},
			[]string{"setup.py", "test -e .venv/bin/pytest || $pip install --quiet pytest ||"}},
		{"setup.py", []string{"setup.py", "setup.cfg: [options.extras_require]\ntesting =\n  pytest\n[flake8]\ndev = 1\n"},
			[]string{"setup.py", "install --quiet --editable '.[testing]'"}},
		{"conda", []string{"environment.yml"}, []string{"environment.yml", "--prefix \"$PWD/.conda\" --file environment.yml"}},
		{"npm with a lock", []string{"package.json: {}", "package-lock.json"}, []string{"package-lock.json", "npm ci --no-audit"}},
		{"npm without", []string{"package.json: {}"}, []string{"package.json", "npm install --no-package-lock --no-audit"}},
		{"a linter that keeps its results", []string{`package.json: {"scripts": {"test": "xo && eslint --cache 'a b' && eslint . && xover && node --test"}}`},
			[]string{"package.json", "--no-fund\ntimeout --kill-after=10s 5m sh -c 'xo' >/dev/null || echo 'a linter of package.json fails'\n" +
				`timeout --kill-after=10s 5m sh -c 'eslint --cache '\''a b'\''' >/dev/null || echo 'a linter of package.json fails'` + "\n"}},
		{"pnpm", []string{`package.json: {"packageManager":"pnpm@9.1.0+sha512.ab"}`, "pnpm-lock.yaml: lockfileVersion: '9.0'"},
			[]string{"pnpm-lock.yaml", "\n9.1.0) ;;\n*) npm install --global --prefix \"$HOME/.local\" --no-audit --no-fund pnpm@9.1.0 ;;\n"}},
		{"pnpm by its lock", []string{"package.json: {}", "pnpm-lock.yaml: lockfileVersion: '6.0'"}, []string{"pnpm-lock.yaml", "\n8.*) ;;\n*) npm install --global --prefix \"$HOME/.local\" --no-audit --no-fund pnpm@8 ;;\n"}},
		{"yarn 1", []string{"package.json: {}", "yarn.lock: # yarn lockfile v1\n"}, []string{"yarn.lock", "yarn install --frozen-lockfile"}},
		{"yarn 4", []string{`package.json: {"packageManager":"yarn@4.1.0"}`, "yarn.lock: #\n\n__metadata:\n  version: 8\n"},
			[]string{"yarn.lock", "@yarnpkg/cli-dist@4.1.0 ;;\nesac\nyarn install --immutable"}},
		{"go", []string{"go.mod", "internal/tools/go.mod"}, []string{"go.mod", "go mod download\ngo test -exec true ./... >"}},
		{"rust", []string{"Cargo.toml", "crates/a/Cargo.toml"}, []string{"Cargo.toml", "cargo test --no-run"}},
		{"maven", []string{"pom.xml"}, []string{"pom.xml", "mvn --batch-mode"}},
		{"maven with its script", []string{"pom.xml", "mvnw"}, []string{"pom.xml", "sh ./mvnw --batch-mode"}},
		{"gradle", []string{"settings.gradle.kts", "gradlew"}, []string{"settings.gradle.kts", "sh ./gradlew --no-daemon testClasses"}},
		{"composer", []string{"composer.json"}, []string{"composer.json", "composer install"}},
		{"bundler", []string{"Gemfile"}, []string{"Gemfile", "bundle install"}},
		{"below", []string{"services/api/go.mod", "services/api/x/go.mod"}, []string{"services/api/go.mod", "(\ncd 'services/api'\ngo mod download"}},
		{"two languages", []string{"go.mod", "web/package.json: {}"}, []string{"go.mod", "go mod download", "web/package.json", "cd 'web'"}},
		{"manifests of others", []string{"testdata/go.mod", "examples/a/package.json: {}", ".github/x/package.json: {}", "a/b/c/d/e/go.mod"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parts, err := setup.Detect(tree(tc.files...))
			require.NoError(t, err)
			script := setup.Join(parts)
			fits := slices.ContainsFunc(slices.Collect(maps.Keys(tree(tc.files...))), setup.Fits)
			assert.Equal(t, script != nil && !script.Idle(), fits)
			if tc.want == nil {
				assert.Nil(t, script)
				return
			}
			var manifests []string
			for _, p := range parts {
				manifests = append(manifests, p.Manifest)
			}
			for i, want := range tc.want {
				if i%2 == 0 {
					assert.Equal(t, want, manifests[i/2])
				} else {
					assert.Contains(t, script.Run, want)
				}
			}
			assert.Len(t, parts, len(tc.want)/2)
			inShell(t, "-n", script.Run)
		})
	}
}

// inShell runs a script in an empty directory and returns its output.
func inShell(t *testing.T, options, script string) string {
	t.Helper()
	cmd := exec.Command("sh", options, "-c", script)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", script, out)
	return string(out)
}

// Names of directories and values of manifests are data for the shell.
func TestNamesAreData(t *testing.T) {
	dir := `it's; $(touch "$HOME/out") *`
	parts, err := setup.Detect(tree(dir+"/go.mod", dir+`/package.json: {"packageManager":"pnpm@1; touch out"}`, dir+"/pnpm-lock.yaml: x"))
	require.NoError(t, err)
	script := setup.Join(parts)
	assert.NotContains(t, script.Run, "touch out")
	assert.Regexp(t, `^end=.*\n\(\ncd '.*'\nleft=.*\n.* timeout .* go test ./\.\.\. (?s:.*)\n\)\n$`, script.Test)
	inShell(t, "-n", script.Test)
	assert.Equal(t, "ok\n", inShell(t, "-e", "go() { echo ok; exit; }; npm() { :; }; pnpm() { :; }; cd() { test \"$1\" = '"+strings.ReplaceAll(dir, "'", `'\''`)+"'; }\n"+script.Run[:strings.Index(script.Run, "go test")]+")"))
	inputs, err := script.ReadInputs(tree(dir+"/go.mod", "its/go.mod"))
	require.NoError(t, err)
	assert.Equal(t, []string{dir + "/go.mod"}, paths(inputs))
}

// The tests of all modules have one bound.
func TestTestsOfSeveralModules(t *testing.T) {
	parts, err := setup.Detect(tree("a/go.mod", "b/go.mod"))
	require.NoError(t, err)
	run := func(took int) string {
		test := fmt.Sprintf("now=0; cd() { :; }; date() { echo $now; }; find() { :; }; timeout() { echo \"$2\"; now=%d; }\n", took) +
			strings.NewReplacer("(\n", "{\n", "\n)\n", "\n}\n", ">/dev/null", "").Replace(setup.Join(parts).Test)
		return inShell(t, "-u", test)
	}
	assert.Equal(t, "240\n140\n", run(100))
	assert.Equal(t, "240\n", run(240), "no time is left")
}

// What is more than a linter that reads is no part of a set-up: it could run the tests, or change the sources.
func TestALinterAlone(t *testing.T) {
	for _, script := range []string{
		"xo; ava", "xo || true; node test.js", "xo & ava", "xo\nava", "xo $(ava)", "xo `ava`", "eslint --cache . ; mocha", "xo > lib.js",
		"prettier --cache -c . | tee log; npm run migrate", "xo-anything", "xo --fix", "xo '--fix'", `xo \--fix`, "xo \"\"--fix",
		"eslint --cache *", "eslint --cache [-]-fix", "eslint --cache -{,-fix}", "eslint --cache --fix .", "eslint --cache --fix-type=layout .", "prettier --cache --write .", "prettier -w --cache .",
		"stylelint --cache --fix", "eslint --cache -o report .", "eslint --cache --cache-location=made .", "eslint .", "tsc && cd web && xo", "",
	} {
		text, err := json.Marshal(map[string]any{"scripts": map[string]string{"test": script}})
		require.NoError(t, err)
		parts, err := setup.Detect(tree("package.json: " + string(text)))
		require.NoError(t, err)
		assert.NotContains(t, setup.Join(parts).Run, "timeout", script)
	}
}

// The set-up of a Python project compiles it, and runs none of its code.
func TestPythonIsCompiledAlone(t *testing.T) {
	dir := t.TempDir()
	ran := "open('ran', 'w')\n"
	for name, text := range map[string]string{
		"tests/test_it.py": ran, "conftest.py": ran, "compileall.py": ran, "struct.py": ran,
		"setup.cfg": "[tool:pytest]\naddopts = --junitxml=ran\n", "bad.py": "def\n", "node_modules/a/b.py": ran,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	parts, err := setup.Detect(tree("uv.lock", "pyproject.toml: [project]"))
	require.NoError(t, err)
	run := setup.Join(parts).Run
	cmd := exec.Command("sh", "-eu", "-c", "python3 -m venv --without-pip .venv\n"+run[strings.Index(run, "timeout"):])
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", run, out)
	assert.Equal(t, "some Python files do not compile\n", string(out))
	for _, made := range []string{"tests/__pycache__/test_it.*.pyc", "__pycache__/conftest.*.pyc"} {
		files, err := filepath.Glob(filepath.Join(dir, made))
		require.NoError(t, err)
		assert.Len(t, files, 1, made)
	}
	assert.NoFileExists(t, filepath.Join(dir, "ran"))
	assert.NoDirExists(t, filepath.Join(dir, "node_modules/a/__pycache__"))
}

// Go sets the times of old files that it uses, which would copy them into each session.
func TestTimesOfTheCacheOfGo(t *testing.T) {
	script, _, err := setup.Find(tree("go.mod"), "")
	require.NoError(t, err)
	assert.Equal(t, "cache/used\n", inShell(t, "-e", `go() { test "$1" != env || echo cache; }
mkdir cache; touch cache/used; touch -d '2 days ago' cache/unused
`+script.Run+"find cache -type f -newermt '20 days'"))
}

// What a set-up installs is none of its inputs, or each command would have it run again.
func TestInstalledIsNoInput(t *testing.T) {
	repository := tree("package.json: {}", "package-lock.json", "packages/a/package.json", "node_modules/b/package.json",
		"packages/a/node_modules/c/package.json", "cache/CACHEDIR.TAG", "cache/package.json")
	script, _, err := setup.Find(repository, "")
	require.NoError(t, err)
	inputs, err := script.ReadInputs(repository)
	require.NoError(t, err)
	assert.Equal(t, []string{"package-lock.json", "package.json", "packages/a/package.json"}, paths(inputs))
	script.Inputs = []string{"node_modules/*/package.json"}
	inputs, err = script.ReadInputs(repository)
	require.NoError(t, err)
	assert.Equal(t, []string{"node_modules/b/package.json"}, paths(inputs), "one that names them")
}

func TestDetectIsBounded(t *testing.T) {
	var files []string
	for i := range 17 {
		files = append(files, fmt.Sprintf("p%d/go.mod", i))
	}
	_, err := setup.Detect(tree(files...))
	assert.EqualError(t, err, "more than 16 directories have manifests: write .codex-runner.toml with a script that makes ready those you need")
	_, err = setup.Detect(tree("a/pyproject.toml: [project\n"))
	assert.ErrorContains(t, err, "a: pyproject.toml: ")
}

func paths(inputs []setup.Input) (all []string) {
	for _, i := range inputs {
		all = append(all, i.Path)
	}
	return all
}
