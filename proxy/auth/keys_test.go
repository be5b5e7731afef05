package auth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeys(t *testing.T) {
	key, line, err := Generate("ci")
	require.NoError(t, err)
	other, _, err := Generate("ci")
	require.NoError(t, err)
	assert.NotEqual(t, key, other)
	assert.NotContains(t, line, key)

	keys, err := Parse(strings.NewReader("# my keys\n\n" + line + " # for the build\n"))
	require.NoError(t, err)
	assert.Equal(t, []string{"ci"}, keys.Names())
	assert.False(t, keys.Empty())

	for _, tc := range []struct {
		header string
		ok     bool
	}{
		{"Bearer " + key, true}, {"bearer  " + key + " ", true},
		{"", false}, {"Bearer", false}, {"Bearer ", false}, {key, false}, {"Basic " + key, false},
		{"Bearer " + other, false}, {"Bearer " + key + "x", false}, {"Bearer " + strings.Fields(line)[1], false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", tc.header)
		got, ok := keys.Check(r)
		assert.Equal(t, tc.ok, ok, tc.header)
		assert.Equal(t, tc.ok, got.Name == "ci", tc.header)
	}
}

func TestNoKeys(t *testing.T) {
	keys, err := Parse(strings.NewReader("# none\n"))
	require.NoError(t, err)
	assert.True(t, keys.Empty())
	assert.True(t, keys.Open())
	assert.True(t, (*Keys)(nil).Empty())
	assert.True(t, (*Keys)(nil).Open())
}

// A file that has had a key stays closed without one, in every copy of it.
func TestClosedFile(t *testing.T) {
	key, line, err := Generate("ci")
	require.NoError(t, err)
	for _, file := range []string{
		ClosedLine() + "\n", "# none\n" + ClosedLine() + "\n" + ClosedLine(), noKey + " " + noKeyHash,
	} {
		keys, err := Parse(strings.NewReader(file))
		require.NoError(t, err)
		assert.True(t, keys.Empty(), "the line is no key")
		assert.True(t, keys.Closed())
		assert.False(t, keys.Open())
		copied, err := Parse(strings.NewReader(keys.Text()))
		require.NoError(t, err)
		assert.True(t, copied.Closed())
		assert.NotEqual(t, new(Keys).Digest(), keys.Digest(), "an open file differs")
		require.NoError(t, keys.Replace(""))
		assert.True(t, keys.Open())
		require.NoError(t, keys.Replace(file+"\n"+line))
		assert.Equal(t, []string{"ci"}, keys.Names())
		assert.True(t, keys.Closed(), "the line remains when the key is removed")
	}
	assert.NotContains(t, ClosedLine(), key)
	_, _, err = Generate(noKey)
	assert.ErrorContains(t, err, "choose another name")
}

func TestParseErrorsNameTheLineAndKeepTheSecret(t *testing.T) {
	_, good, err := Generate("a")
	require.NoError(t, err)
	for name, file := range map[string]string{
		"a key instead of its hash": "\nme sk-codex-secret",
		"one word":                  "\nsk-codex-secret",
		"three words":               "\na b sk-codex-secret",
		"a key after the hash":      "\n" + good + " sk-codex-secret",
		"an unknown limit":          "\n" + good + " sk-codex-secret=1",
		"a key as a limit":          "\n" + good + " concurrent=sk-codex-secret",
		"a bad name":                "\na/b " + strings.Fields(good)[1],
		"twice":                     good + "\n" + good,
	} {
		_, err := Parse(strings.NewReader(file))
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), "line 2", name)
		assert.NotContains(t, err.Error(), "secret", name)
	}
}

func TestGenerateRefusesABadName(t *testing.T) {
	for _, name := range []string{"", "a b", "ü", strings.Repeat("x", 65)} {
		_, _, err := Generate(name)
		assert.Error(t, err, name)
	}
}

// The last valid file is in force.
func TestReplace(t *testing.T) {
	first, line, err := Generate("first")
	require.NoError(t, err)
	second, other, err := Generate("second")
	require.NoError(t, err)
	var keys Keys
	require.NoError(t, keys.Replace(line+"\n"))
	assert.True(t, accepts(&keys, first))
	require.NoError(t, keys.Replace(other+" concurrent=2 # new\n"))
	assert.False(t, accepts(&keys, first))
	assert.True(t, accepts(&keys, second))
	assert.Error(t, keys.Replace(line+"\nnonsense\n"))
	assert.True(t, accepts(&keys, second))
	assert.Equal(t, other+" concurrent=2\n", keys.Text())

	require.NoError(t, keys.Replace(""))
	assert.True(t, keys.Open())
	keys.Require()
	assert.False(t, keys.Open(), "without a key every request is refused")
	assert.Error(t, keys.Replace(strings.Repeat("#", maxFile+1)))
}

func accepts(keys *Keys, key string) bool {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	_, ok := keys.Check(r)
	return ok
}

func TestLimits(t *testing.T) {
	_, line, err := Generate("a")
	require.NoError(t, err)
	words := "requests-per-minute=60 tokens-per-minute=1000 tokens-per-day=5000 concurrent=4 models=gpt-5,org/x " +
		"accounts=a,b choose-account=yes remotes=build,docs:viewer unknown-parameters=ignore"
	keys, err := Parse(strings.NewReader(line + " " + words + "\n"))
	require.NoError(t, err)
	got := keys.All()[0].Limits
	assert.Equal(t, Limits{
		Models: []string{"gpt-5", "org/x"}, RequestsPerMinute: 60, TokensPerMinute: 1000, TokensPerDay: 5000,
		Concurrent: 4, Accounts: []string{"a", "b"}, ChooseAccount: true, Remotes: []string{"build", "docs:viewer"},
		UnknownParameters: Ignore,
	}, got)
	assert.Equal(t, []string{"build", "docs"}, got.RemoteNames())
	for name, want := range map[string][2]bool{"build": {false, true}, "docs": {true, true}, "docs:viewer": {}, "other": {}, "": {}} {
		viewer, ok := got.Remote(name)
		assert.Equal(t, want, [2]bool{viewer, ok}, name)
	}
	assert.Equal(t, words, strings.Join(got.Words(), " "))
	assert.True(t, got.Allows("org/x"))
	assert.False(t, got.Allows("gpt-5-mini"))
	assert.True(t, Limits{}.Allows("any"))
	assert.True(t, Limits{Models: []string{"gpt-5", "claude-*"}}.Allows("claude-opus-4-5"))
	assert.False(t, Limits{Models: []string{"claude-*"}}.Allows("gpt-5"))
	for _, name := range LimitNames {
		require.NoError(t, got.Set(name, "none"))
		assert.Equal(t, "none", got.Value(name))
	}
	assert.Equal(t, Limits{}, got)

	for name, values := range map[string][]string{
		RequestsPerMinute: {"", "0", "-1", "1.5", "many", "1000000000001"},
		Models: {
			"", ",", "a,", "a b", "ü", "a#b", "a*b*", strings.Repeat("x", 257), strings.Repeat("a,", 64) + "a",
		},
		Accounts: {"", "a,", "a b", strings.Repeat("a,", 64) + "a"}, ChooseAccount: {"", "true", "a"},
		Remotes:           {"", "a,", "a b", "a:owner", "a:viewer:viewer", "a,a", "a,b,a:viewer"},
		UnknownParameters: {"", "yes", "ignored"},
		"requests":        {"1"},
	} {
		for _, value := range values {
			assert.Error(t, new(Limits).Set(name, value), "%s=%s", name, value)
		}
	}
}

// Of several keys in one request, the bearer token counts, and then X-Api-Key.
func TestHeadersOfKeys(t *testing.T) {
	var file strings.Builder
	secrets := map[string]string{}
	for _, name := range []string{"azure", "anthropic", "openai"} {
		key, line, err := Generate(name)
		require.NoError(t, err)
		secrets[name] = key
		file.WriteString(line + "\n")
	}
	keys, err := Parse(strings.NewReader(file.String()))
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, sent := range []struct{ header, value, want string }{
		{"api-key", "sk-wrong", ""}, {"api-key", secrets["azure"], "azure"}, {"x-api-key", secrets["anthropic"], "anthropic"},
		{"Authorization", "Bearer " + secrets["openai"], "openai"}, {"Authorization", "Bearer sk-wrong", "anthropic"},
	} {
		r.Header.Set(sent.header, sent.value)
		key, ok := keys.Check(r)
		assert.Equal(t, sent.want, key.Name)
		assert.Equal(t, sent.want != "", ok)
	}
}
