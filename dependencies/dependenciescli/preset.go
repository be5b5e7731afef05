package dependenciescli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/nearest"
)

// Template is the preset that has every key.
const Template = "template"

// PresetNames returns the names of the presets in a directory, sorted.
func PresetNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list the presets: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".toml"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// preset returns the preset for a dependency: the one that the command line names, else the one of the dependency's
// name, else the template.
func (d *Dependencies) preset(name string) (preset, text string, err error) {
	names, err := PresetNames(d.Presets)
	if err != nil {
		return "", "", err
	}
	for _, preset := range []string{d.Preset, name, Template} {
		if preset == "" {
			continue
		}
		text, err := d.readPreset(preset)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return preset, text, err
		}
		if preset == d.Preset {
			return "", "", unknownPreset(preset, names)
		}
	}
	return "", "", fmt.Errorf("%s has no preset %s: reinstall the package", d.Presets, Template)
}

// presetName keeps a name from leading out of the directory.
var presetName = lazyregexp.New(`^[a-z0-9][a-z0-9-]*$`)

func (d *Dependencies) readPreset(preset string) (string, error) {
	if !presetName.MatchString(preset) {
		return "", fs.ErrNotExist
	}
	text, err := os.ReadFile(filepath.Join(d.Presets, preset+".toml"))
	if err != nil {
		return "", fmt.Errorf("cannot read the preset: %w", err)
	}
	return string(text), nil
}

func unknownPreset(preset string, names []string) error {
	meant := ""
	if near := nearest.To(preset, names, 1); len(near) > 0 {
		meant = fmt.Sprintf(" (did you mean %s?)", near[0])
	}
	return fmt.Errorf("there is no preset %q%s; the presets are %s", preset, meant, strings.Join(names, ", "))
}

// placeholderName is the word that stands for the name of the dependency in presets.
var placeholderName = lazyregexp.New(`\bNAME\b`)

// named is a preset with the name of the dependency. "NAME = FILE" in a comment stands for other names.
func named(text, name string) string { return placeholderName.ReplaceAllString(text, name) }
