package strict

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type file struct {
	Model    string `toml:"model"`
	Limit    int    `toml:"limit"`
	Provider struct {
		URL string `toml:"base_url"`
	} `toml:"provider"`
	Free map[string]any `toml:"free"`
}

func TestDecode(t *testing.T) {
	var f file
	require.NoError(t, Decode("f.toml", []byte("model = 'x'\n[provider]\nbase_url = 'u'\n[free]\nany.thing = 1\n"), &f))
	assert.Equal(t, "x", f.Model)
	assert.Equal(t, "u", f.Provider.URL)
}

func TestDecodeErrors(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"misspelt": {"limit = 1\nmodle = 'x'\n", `f.toml:2: unknown key "modle" (did you mean "model"?)`},
		"misspelt nested": {"[provider]\nbase_ulr = 'x'\n",
			`f.toml:2: unknown key "provider.base_ulr" (did you mean "provider.base_url"?)`},
		"far off": {"zzzzzzzz = 1\n",
			`f.toml:1: unknown key "zzzzzzzz" (known keys: model, limit, provider, provider.base_url, free)`},
		"wrong type": {"\nlimit = 'many'\n", `f.toml:2: limit: `},
		"syntax":     {"model = 'x'\nlimit =\n", `f.toml:2: `},
	} {
		t.Run(name, func(t *testing.T) {
			var f file
			err := Decode("f.toml", []byte(tc.text), &f)
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
}

func TestDecodeNamesEveryUnknownKey(t *testing.T) {
	var f file
	err := Decode("f.toml", []byte("modle = 'x'\nlimt = 1\n"), &f)
	require.Error(t, err)
	assert.Contains(t, err.Error(), `"modle"`)
	assert.Contains(t, err.Error(), `"limt"`)
}
