package environment

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// venv installs requirements.txt with the pip of the host.
type venv struct{}

func (venv) Name() string                { return "venv" }
func (venv) Detect(workspace fs.FS) bool { return has(workspace, "requirements.txt") }

func (venv) Key(ctx context.Context, host Host, workspace fs.FS) ([]Manifest, []Tool, error) {
	files, err := requirements(workspace, "requirements.txt", nil)
	if err != nil {
		return nil, nil, err
	}
	python, pip, err := host.python(ctx)
	if err == nil && pip.Version == "" {
		err = &MissingToolError{"pip", packages["pip"]}
	}
	return files, []Tool{python, pip}, err
}

// Build uses the one pip of the host for all: ensurepip would take most of the time.
func (venv) Build(o Order, p Place) []Step {
	python := o.tool("python3").Path
	install := []string{python, "-I", "-m", "pip", "--isolated", "--python", filepath.Join(p.Dir, "venv/bin/python"),
		"install",
		"--no-input", "--no-cache-dir", "--disable-pip-version-check", "--progress-bar", "off", "-r", "requirements.txt"}
	if o.Store.Dir != "" {
		install = append(install, "--no-index", "--find-links", o.Store.Dir)
	}
	return []Step{{Args: []string{python, "-I", "-m", "venv", "--without-pip", filepath.Join(p.Dir, "venv")}},
		{Args: install}}
}

func (venv) Activate(dir string) Activation { return activateVenv(dir) }

func activateVenv(dir string) Activation {
	dir = filepath.Join(dir, "venv")
	return Activation{Path: []string{filepath.Join(dir, "bin")}, Env: map[string]string{"VIRTUAL_ENV": dir}}
}

// requirements returns a file of requirements and those that it names with -r or -c. The files above are those that
// include it.
func requirements(workspace fs.FS, name string, above []string) ([]Manifest, error) {
	if slices.Contains(above, name) {
		return nil, fmt.Errorf("%s includes itself: remove the line", name)
	}
	found, err := manifests(workspace, name)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s is not in the workspace", name)
	}
	if err != nil {
		return nil, err
	}
	above = append(slices.Clip(above), name)
	n := 0
	for line := range strings.Lines(string(found[0].Content)) {
		n++
		other, err := included(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		if other == "" {
			continue
		}
		more, err := requirements(workspace, path.Join(path.Dir(name), other), above)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		for _, m := range more {
			if !slices.ContainsFunc(found, func(f Manifest) bool { return f.Path == m.Path }) {
				found = append(found, m)
			}
		}
	}
	return found, nil
}

// included returns the file that a line includes. A path into the workspace is refused: the build does not have it.
func included(line string) (string, error) {
	for _, option := range []string{"-r", "--requirement", "-c", "--constraint"} {
		rest, ok := strings.CutPrefix(line, option)
		if file := strings.TrimLeft(rest, " \t="); ok && file != "" && (len(option) == 2 || file != rest) {
			return file, nil
		}
	}
	for _, local := range []string{"-e", "--editable", "./", "../", "file:", "/", "."} {
		if strings.HasPrefix(line, local) {
			return "", fmt.Errorf("%w: %s (use the path in the command instead, for example with PYTHONPATH)",
				ErrUnsupported, line)
		}
	}
	return "", nil
}

// uv installs uv.lock.
type uv struct{}

func (uv) Name() string                { return "uv" }
func (uv) Detect(workspace fs.FS) bool { return has(workspace, "uv.lock", "pyproject.toml") }

func (uv) Key(ctx context.Context, host Host, workspace fs.FS) ([]Manifest, []Tool, error) {
	files, err := manifests(workspace, "pyproject.toml", "uv.lock", "uv.toml")
	if err != nil {
		return nil, nil, err
	}
	if err := noMembers(files[0].Content); err != nil {
		return nil, nil, err
	}
	program, err := host.Tool(ctx, "uv")
	if err != nil {
		return nil, nil, err
	}
	python, _, err := host.python(ctx)
	return files, []Tool{program, python}, err
}

// noMembers refuses a workspace of uv, as the build does not have its members.
func noMembers(pyproject []byte) error {
	var p struct {
		Tool struct {
			UV struct {
				Workspace map[string]any `toml:"workspace"`
			} `toml:"uv"`
		} `toml:"tool"`
	}
	if err := toml.Unmarshal(pyproject, &p); err != nil {
		return fmt.Errorf("pyproject.toml: %w", err)
	}
	if p.Tool.UV.Workspace != nil {
		return fmt.Errorf("%w: [tool.uv.workspace] of pyproject.toml (export a requirements.txt and use the environment venv)", ErrUnsupported)
	}
	return nil
}

// Build installs no project: its files are in the workspace.
func (uv) Build(o Order, p Place) []Step {
	args := []string{o.tool("uv").Path, "sync", "--locked", "--no-install-project", "--no-progress", "--python",
		o.tool("python3").Path}
	if o.Store.Dir != "" {
		args = append(args, "--offline", "--no-index", "--find-links", o.Store.Dir)
	}
	return []Step{{Args: args, Env: []string{
		"UV_PROJECT_ENVIRONMENT=" + filepath.Join(p.Dir, "venv"), "UV_CACHE_DIR=" + filepath.Join(p.Scratch, "uv"),
		"UV_PYTHON_DOWNLOADS=never", "UV_LINK_MODE=copy",
	}}}
}

func (uv) Activate(dir string) Activation { return activateVenv(dir) }
