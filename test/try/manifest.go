package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"codex-proxy/test/machine"
)

// manifest is the file list of a Debian package, whose parts make joins for nfpm
// (https://nfpm.goreleaser.com/docs/configuration/). program stands for ${BIN}.
type manifest struct {
	program string
	parts   []string
}

// manifests are those of both packages.
var manifests = []manifest{
	{"codex-proxy", []string{"packaging/nfpm.yaml", "deb/nfpm.yaml"}},
	{"codex-runner", []string{"packaging/runner/nfpm.yaml", "deb/runner/nfpm.yaml"}},
}

// manual is where make leaves what packaging/manual generates: man pages,
// completions and the changelog. Nothing in the machine needs them, and to
// generate them takes a program of its own.
const manual = "build/share/"

// content is one entry of a manifest's contents. A key that is not here is an
// error: nfpm would do something that we do not.
type content struct {
	Source   string `yaml:"src"`
	Expand   bool   `yaml:"expand"` // nfpm's, for ${BIN} in Source
	Path     string `yaml:"dst"`
	Type     string `yaml:"type"`
	Packager string `yaml:"packager"`
	Info     struct {
		Mode fs.FileMode `yaml:"mode"`
	} `yaml:"file_info"`
}

// sender is the program that sends traces. A trial has no collector, and gRPC takes
// long to compile.
const sender = "${BIN}-traces"

// files reads the manifests of the tree in top and returns the entries of the
// Debian packages, without those of manual and without the sender. The programs are in
// the directory bin. The paths of the sources are absolute: a machine is set up elsewhere.
func files(top, bin string) ([]machine.Entry, error) {
	top, topErr := filepath.Abs(top)
	bin, binErr := filepath.Abs(bin)
	if err := errors.Join(topErr, binErr); err != nil {
		return nil, err
	}
	var all []machine.Entry
	for _, m := range manifests {
		entries, err := m.files(top, filepath.Join(bin, m.program))
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// files are those of one package.
func (m manifest) files(top, program string) ([]machine.Entry, error) {
	contents, err := m.read(top)
	if err != nil {
		return nil, err
	}
	var all []machine.Entry
	for _, c := range contents {
		if c.Packager != "" && c.Packager != "deb" || strings.HasPrefix(c.Source, manual) || c.Source == sender {
			continue
		}
		entries, err := c.entries(top, program)
		if err != nil {
			return nil, fmt.Errorf("cannot install %s: %w", c.Path, err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

func (m manifest) read(top string) ([]content, error) {
	var joined []byte
	for _, name := range m.parts {
		data, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			return nil, err
		}
		joined = append(joined, data...)
	}
	var list struct {
		Contents []content      `yaml:"contents"`
		Rest     map[string]any `yaml:",inline"` // what describes the package, for nfpm alone
	}
	decoder := yaml.NewDecoder(bytes.NewReader(joined))
	decoder.KnownFields(true)
	if err := decoder.Decode(&list); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", strings.Join(m.parts, " and "), err)
	}
	return list.Contents, nil
}

// entries returns what c stands for: several files if its source is a pattern.
func (c content) entries(top, program string) ([]machine.Entry, error) {
	switch c.Type {
	case "dir":
		return []machine.Entry{{Path: c.Path, Mode: c.Info.Mode}}, nil
	case "symlink":
		return []machine.Entry{{Path: c.Path, Link: c.Source}}, nil
	case "", "config", "config|noreplace":
	default:
		return nil, fmt.Errorf("type %q is unknown", c.Type)
	}
	if c.Info.Mode == 0 {
		return nil, errors.New("it has no mode")
	}
	if more, is := strings.CutPrefix(c.Source, "${BIN}"); is {
		return []machine.Entry{{Path: c.Path, Source: program + more, Mode: c.Info.Mode}}, nil
	}
	return c.matches(filepath.Join(top, c.Source))
}

// matches returns the files of a pattern. They keep their names below a Path that ends
// with a slash; otherwise the file is Path.
func (c content) matches(pattern string) ([]machine.Entry, error) {
	sources, err := filepath.Glob(pattern)
	if err == nil && len(sources) == 0 {
		err = fmt.Errorf("there is no %s", pattern)
	}
	slices.Sort(sources)
	var all []machine.Entry
	for _, source := range sources {
		path := c.Path
		if strings.HasSuffix(path, "/") {
			path += filepath.Base(source)
		}
		all = append(all, machine.Entry{Path: path, Source: source, Mode: c.Info.Mode})
	}
	return all, err
}
