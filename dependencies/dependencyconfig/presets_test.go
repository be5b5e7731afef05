package dependencyconfig

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/strict"
)

const presetDir = "../../packaging/dependencies"

// aKey is a key of a preset; with "# " before it, it is commented out.
var aKey = regexp.MustCompile(`^(# )?([a-z_]+) = (.*)$`)

// allKeys are the keys of a file, without their tables.
func allKeys() (keys []string) {
	for _, key := range strict.Keys(raw{}) {
		if key != "probe" {
			keys = append(keys, strings.TrimPrefix(key, "probe."))
		}
	}
	return keys
}

// presets are the texts of the presets, by name.
func presets(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(presetDir + "/*.toml")
	require.NoError(t, err)
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[strings.TrimSuffix(filepath.Base(file), ".toml")] = string(text)
	}
	require.Len(t, texts, 5)
	return texts
}

// Each preset is a valid file as it is, and has every key.
func TestPresets(t *testing.T) {
	for name, text := range presets(t) {
		_, err := Parse("/x/a.toml", []byte(text))
		assert.NoError(t, err, name)
		found := map[string]int{}
		for line := range strings.Lines(text) {
			if m := aKey.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
				found[m[2]]++
			}
		}
		for _, key := range allKeys() {
			assert.Equal(t, 1, found[key], "%s: %s", name, key)
		}
		assert.Len(t, found, len(allKeys()), name)
	}
}

// A key that is commented out shows its default: the file means the same with it.
func TestCommentedKeysShowDefaults(t *testing.T) {
	for name, text := range presets(t) {
		want, err := Parse("/x/a.toml", []byte(text))
		require.NoError(t, err)
		keys := 0
		for line := range strings.Lines(text) {
			m := aKey.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil || m[1] == "" {
				continue
			}
			keys++
			with := strings.Replace(text, "\n"+line, "\n"+strings.TrimPrefix(line, "# "), 1)
			got, err := Parse("/x/a.toml", []byte(with))
			require.NoError(t, err, "%s: %s", name, line)
			assert.Equal(t, normal(want), normal(got), "%s: %s", name, line)
		}
		assert.Greater(t, keys, 5, name)
	}
}

// normal makes no difference between an empty list and none.
func normal(s *Settings) Settings {
	n := *s
	for _, list := range []*[]string{&n.Prepare, &n.Directories} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	for _, list := range []*[]int{&n.Ports, &n.Probe.Status} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	for _, table := range []*map[string]string{&n.Environment, &n.Credentials} {
		if len(*table) == 0 {
			*table = nil
		}
	}
	return n
}
