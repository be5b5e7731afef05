package dependenciescli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

func TestAdd(t *testing.T) {
	b := newBed(t)
	b.presetsWith(t, "sleep")
	require.NoError(t, b.Add(t.Context(), "temporal"))
	file := b.of("temporal").file
	s, err := dependencyconfig.Load(file)
	require.NoError(t, err)
	assert.Regexp(t, `^/(usr/)?bin/sleep$`, s.Command[0])
	assert.Equal(t, "Temporal server temporal", s.Description)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), "systemctl restart codex-dependency@temporal\n")
	assert.NotRegexp(t, `\bNAME\b`, string(text))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode())
	assert.Equal(t, 1, b.systemd.Calls("Reload"), "systemd has read it")
	assert.Zero(t, b.systemd.Calls("StartUnit"))
	assert.Equal(t, []string{
		"The dependency temporal is made of the preset temporal: " + file + ", codex-dependency@temporal.service.",
		"Start it: systemctl start codex-dependency@temporal",
		"Start it at boot, too: systemctl enable codex-dependency@temporal",
	}, lines(b.stderr.String()))

	b.stderr.Reset()
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o644))
	assert.EqualError(t, b.Add(t.Context(), "temporal"), `there is a dependency "temporal" already: `+file)
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(text), "it is never overwritten")
	assert.Equal(t, []string{"temporal.toml"}, entries(t, b.Settings), "nothing else is left")
}

// Two of one preset have names of their own.
func TestAddOfAnotherPreset(t *testing.T) {
	b := newBed(t)
	names, err := PresetNames(b.Presets)
	require.NoError(t, err)
	assert.Equal(t, []string{"http", "mcp", "postgresql", "template", "temporal"}, names)
	b.presetsWith(t, "sleep")
	b.Preset = "temporal"
	require.NoError(t, b.Add(t.Context(), "night"))
	s, err := dependencyconfig.Load(b.of("night").file)
	require.NoError(t, err)
	assert.Contains(t, s.Command, "/var/lib/codex-dependency/night/temporal.db")
	text, err := os.ReadFile(b.of("night").file)
	require.NoError(t, err)
	assert.Contains(t, string(text), `# The dependency "night": codex-dependency@night.service`)
}

// Without a preset of its name a dependency gets the file with every key.
func TestAddWithoutAPreset(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.Add(t.Context(), "search"))
	file := b.of("search").file
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	template, err := os.ReadFile(filepath.Join(b.Presets, "template.toml"))
	require.NoError(t, err)
	assert.Equal(t, named(string(template), "search"), string(text))
	assert.Equal(t, []string{
		"The dependency search is made of the preset template: " + file + ", codex-dependency@search.service.",
		"Before it can start: command: /usr/local/bin/server: there is no such program: name the path of the one to " +
			"run",
		"After a change of the file: codex-proxy dependencies check search && systemctl daemon-reload",
		"Start it: systemctl start codex-dependency@search",
		"Start it at boot, too: systemctl enable codex-dependency@search",
	}, lines(b.stderr.String()))
}

func TestAddErrors(t *testing.T) {
	b := newBed(t)
	for preset, want := range map[string]string{
		"postgres": `there is no preset "postgres" (did you mean postgresql?); the presets are ` +
			"http, mcp, postgresql, template, temporal",
		"../postgresql": `there is no preset "../postgresql"`, "x": `there is no preset "x"; the presets are http`,
	} {
		b.Preset = preset
		assert.ErrorContains(t, b.Add(t.Context(), "a"), want)
	}
	b.Preset = ""
	fill(t)
	assert.EqualError(t, b.Add(t.Context(), "temporal"), "the program temporal is not installed: install Temporal's "+
		"CLI, see https://docs.temporal.io/cli, into /usr/local/bin")
	b.Presets = filepath.Join(b.Etc, "none")
	assert.ErrorContains(t, b.Add(t.Context(), "a"), "cannot list the presets: ")
	b.Presets = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(b.Presets, "template.toml"), []byte("comand = []"), 0o644))
	err := b.Add(t.Context(), "a")
	assert.ErrorContains(t, err, "cannot use the preset template: ")
	assert.ErrorContains(t, err, `a.toml:1: unknown key "comand" (did you mean "command"?)`)
	assert.Empty(t, entries(t, b.Settings))
	assert.Zero(t, b.systemd.Calls("Reload"))
}

// A file that systemd does not read is taken back.
func TestAddWithoutSystemd(t *testing.T) {
	unitstest.NewStopped(t)
	var stdout, stderr bytes.Buffer
	d := dependenciesIn(t, &stdout, &stderr)
	err := d.Add(t.Context(), "a")
	assert.ErrorIs(t, err, units.ErrNoBus)
	assert.ErrorContains(t, err, "cannot make systemd read the unit files")
	assert.Empty(t, entries(t, d.Settings))

	b := newBed(t)
	b.systemd.Refuse("org.freedesktop.DBus.Error.AccessDenied", "Reload")
	assert.ErrorContains(t, b.Add(t.Context(), "a"), "systemd refuses")
	assert.Empty(t, entries(t, b.Settings))
}

// presetsWith are the presets of the packages with another program in the place of temporal, which every machine has
// where units see it.
func (b *bed) presetsWith(t *testing.T, program string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Presets, "temporal.toml"))
	require.NoError(t, err)
	b.Presets = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(b.Presets, "temporal.toml"),
		[]byte(strings.Replace(string(text), `"temporal", "server"`, `"`+program+`", "server"`, 1)), 0o644))
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}
