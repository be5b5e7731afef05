package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/console/pipe"
	"codex-proxy/workers/control"
)

func table(t *testing.T, readOnly bool) (*Table, *[]string) {
	t.Helper()
	var done []string
	return New(Settings{
		Client: control.NewClient(t.TempDir() + "/none"), ReadOnly: readOnly,
		Doctor: func(context.Context) (any, error) {
			done = append(done, "doctor")
			return map[string]bool{"ok": true}, nil
		},
		AddKey: func(ctx context.Context, name string, limits map[string]string) (KeyChange, error) {
			done = append(done, "add "+name+limits["tokens-per-day"])
			if name == "lost" {
				return KeyChange{Key: "sk-codex-y"}, errors.New("the service has not taken it over")
			}
			return KeyChange{Key: "sk-codex-x", Outcome: "taken over"}, ctx.Err()
		},
		RevokeKey: func(_ context.Context, name string) (KeyChange, error) {
			done = append(done, "revoke "+name)
			if name == "other" {
				return KeyChange{Outcome: "the service goes by another file"}, nil
			}
			return KeyChange{}, errors.New("there is no key")
		},
	}), &done
}

func (t *Table) try(verb string, words map[string]string) (json.RawMessage, error) {
	return t.Handle(context.Background(), pipe.Order{Verb: verb, Words: words}, func(json.RawMessage) error { return nil })
}

type words = map[string]string

func TestVerbs(t *testing.T) {
	v, done := table(t, false)
	assert.LessOrEqual(t, len(v.Names()), 16)
	got, err := v.try("add", words{"key": "alice", "tokens-per-day": "5"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"key":"sk-codex-x","outcome":"taken over"}`, string(got))
	_, err = v.try("revoke", words{"key": "alice"})
	require.EqualError(t, err, "there is no key")
	got, err = v.try("doctor", nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"ok":true}`, string(got))
	for _, verb := range []string{"drain", "undrain"} {
		_, err = v.try(verb, words{"worker": "a"})
		assert.ErrorIs(t, err, control.ErrNotRunning, verb)
	}
	for _, verb := range []string{"pause", "resume", "switch"} {
		_, err = v.try(verb, words{"account": "a"})
		assert.ErrorIs(t, err, control.ErrNotRunning, verb)
	}
	_, err = v.try("watch", words{"of": "status,keys"})
	assert.ErrorIs(t, err, control.ErrNotRunning)
	_, err = v.try("usage", words{"since": "7d", "by": "hour,key"})
	assert.ErrorIs(t, err, control.ErrNotRunning)
	assert.Equal(t, []string{"add alice5", "revoke alice", "doctor"}, *done)
}

// A key that is in the file is shown, whatever happens after that; and an outcome is not "done".
func TestOutcomesOfKeys(t *testing.T) {
	v, _ := table(t, false)
	got, err := v.try("add", words{"key": "lost"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"key":"sk-codex-y","outcome":"the service has not taken it over"}`, string(got))
	closed, cancel := context.WithCancel(t.Context())
	cancel()
	got, err = v.Handle(closed, pipe.Order{Verb: "add", Words: words{"key": "a"}}, nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"key":"sk-codex-x","outcome":"taken over"}`, string(got), "the page is closed")
	got, err = v.try("revoke", words{"key": "other"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"outcome":"the service goes by another file"}`, string(got))
}

// Every key of the file can be revoked.
func TestNamesOfKeys(t *testing.T) {
	v, done := table(t, false)
	for _, name := range []string{"_ci", ".old", "-x", "a.b"} {
		_, err := v.try("revoke", words{"key": name})
		require.EqualError(t, err, "there is no key", name)
	}
	assert.Len(t, *done, 4)
}

// Orders that no page makes are refused before anything happens.
func TestHostileOrders(t *testing.T) {
	v, done := table(t, false)
	for name, tc := range map[string]struct {
		verb  string
		words words
	}{
		"an unknown verb":            {"exec", nil},
		"no verb":                    {"", nil},
		"a verb in capitals":         {"Drain", words{"worker": "a"}},
		"no word":                    {"drain", nil},
		"an empty word":              {"drain", words{"worker": ""}},
		"a further word":             {"drain", words{"worker": "a", "invocation": "x"}},
		"an option":                  {"drain", words{"worker": "--stop"}},
		"a path":                     {"drain", words{"worker": "../a"}},
		"a slash":                    {"drain", words{"worker": "a/b"}},
		"a line":                     {"drain", words{"worker": "a\nb"}},
		"a line at the end":          {"revoke", words{"key": "a\n"}},
		"a NUL":                      {"pause", words{"account": "a\x00"}},
		"a space":                    {"add", words{"key": "a b"}},
		"a hash mark":                {"add", words{"key": "a#b"}},
		"a long name":                {"add", words{"key": strings.Repeat("a", 65)}},
		"a limit that is none":       {"add", words{"key": "a", "models": "x"}},
		"a limit of words":           {"add", words{"key": "a", "concurrent": "4 remotes=x"}},
		"a negative limit":           {"add", words{"key": "a", "concurrent": "-1"}},
		"another file":               {"add", words{"key": "a", "file": "/etc/shadow"}},
		"a parameter in the period":  {"usage", words{"since": "7d&by=key", "by": "day"}},
		"a parameter in the columns": {"usage", words{"since": "7d", "by": "day&x=1"}},
		"a path in the parts":        {"watch", words{"of": "status/../keys"}},
		"many parts":                 {"watch", words{"of": strings.Repeat("a,", 20) + "a"}},
	} {
		_, err := v.try(tc.verb, tc.words)
		require.Error(t, err, name)
		assert.NotErrorIs(t, err, control.ErrNotRunning, name)
	}
	assert.Empty(t, *done)
}

// The process with rights enforces --read-only, whatever the server asks for.
func TestReadOnly(t *testing.T) {
	v, done := table(t, true)
	for verb, of := range v.verbs {
		given := words{}
		for _, need := range of.needs {
			given[need] = map[string]string{"since": "7d"}[need]
			if given[need] == "" {
				given[need] = "a"
			}
		}
		_, err := v.try(verb, given)
		assert.Equal(t, of.changes, errors.Is(err, ErrReadOnly), verb)
	}
	assert.Equal(t, []string{"doctor"}, *done)
	assert.True(t, v.verbs["drain"].changes)
}
