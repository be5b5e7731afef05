package proxyorders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/console/pipe"
	"codex-proxy/console/verbs"
	"codex-proxy/workers/control"
)

func table(t *testing.T, readOnly bool) (*orders, *[]string) {
	t.Helper()
	var done []string
	all := All(Settings{
		Client: control.NewClient(t.TempDir() + "/none"),
		Remote: func(name string) (Remote, error) {
			if name == "none" {
				return nil, errors.New("there is no remote")
			}
			return &remote{name, &done}, nil
		},
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
	})
	return &orders{verbs.New(readOnly, all), all}, &done
}

type orders struct {
	*verbs.Table
	all map[string]verbs.Verb
}

func (o *orders) try(verb string, words given) (json.RawMessage, error) {
	return o.Handle(context.Background(), pipe.Order{Verb: verb, Words: words}, func(json.RawMessage) error { return nil })
}

type given = map[string]string

// remote records the orders that reach it.
type remote struct {
	name string
	done *[]string
}

func (r *remote) note(words ...string) {
	*r.done = append(*r.done, strings.Join(append([]string{r.name}, words...), " "))
}

func (r *remote) Follow(_ context.Context, thread string, each func(any) error) error {
	r.note("follow", thread)
	return each(given{"thread": thread})
}

func (r *remote) Send(ctx context.Context, thread, text string) (string, error) {
	r.note("send", thread, text)
	return aThread, ctx.Err()
}

func (r *remote) Approve(ctx context.Context, thread, question, decision string) error {
	r.note("approve", thread, question, decision)
	return ctx.Err()
}

func (r *remote) Interrupt(ctx context.Context, thread string) error {
	r.note("interrupt", thread)
	return ctx.Err()
}

const (
	aThread   = "01a20aba-7cdd-7362-82ac-fa590110caa5"
	aQuestion = "0123456789abcdef0123456789abcdef"
)

func TestVerbs(t *testing.T) {
	v, done := table(t, false)
	assert.LessOrEqual(t, len(v.Names()), 16)
	got, err := v.try("add", given{"key": "alice", "tokens-per-day": "5"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"key":"sk-codex-x","outcome":"taken over"}`, string(got))
	_, err = v.try("revoke", given{"key": "alice"})
	require.EqualError(t, err, "there is no key")
	got, err = v.try("doctor", nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"ok":true}`, string(got))
	for _, verb := range []string{"drain", "undrain"} {
		_, err = v.try(verb, given{"worker": "a"})
		assert.ErrorIs(t, err, control.ErrNotRunning, verb)
	}
	for _, verb := range []string{"pause", "resume", "switch"} {
		_, err = v.try(verb, given{"account": "a"})
		assert.ErrorIs(t, err, control.ErrNotRunning, verb)
	}
	_, err = v.try("watch", given{"of": "status,keys"})
	assert.ErrorIs(t, err, control.ErrNotRunning)
	_, err = v.try("usage", given{"since": "7d", "by": "hour,key"})
	assert.ErrorIs(t, err, control.ErrNotRunning)
	assert.Equal(t, []string{"add alice5", "revoke alice", "doctor"}, *done)
}

func TestRemotes(t *testing.T) {
	v, done := table(t, false)
	closed, cancel := context.WithCancel(t.Context())
	cancel()
	var lines []string
	for _, o := range []pipe.Order{
		{Verb: "transcript", Words: given{"remote": "build"}},
		{Verb: "send", Words: given{"remote": "build", "text": "run\nit ünd <b>"}},
		{Verb: "approve", Words: given{"remote": "build", "thread": aThread, "question": aQuestion,
			"decision": "acceptForSession"}},
		{Verb: "interrupt", Words: given{"remote": "build", "thread": aThread}},
	} {
		raw, err := v.Handle(closed, o, func(line json.RawMessage) error { lines = append(lines, string(line)); return nil })
		require.NoError(t, err, "it goes on when the page is closed: %s", o.Verb)
		if o.Verb != "transcript" {
			assert.JSONEq(t, `{"thread":"`+aThread+`"}`, string(raw))
		}
	}
	assert.Equal(t, []string{`{"thread":""}`}, lines)
	assert.Equal(t, []string{"build follow ", "build send  run\nit ünd <b>",
		"build approve " + aThread + " " + aQuestion + " acceptForSession",
		"build interrupt " + aThread}, *done)
	_, err := v.try("send", given{"remote": "none", "text": "x"})
	assert.EqualError(t, err, "there is no remote")
}

// A key that is in the file is shown, whatever happens after that; and an outcome is not "done".
func TestOutcomesOfKeys(t *testing.T) {
	v, _ := table(t, false)
	got, err := v.try("add", given{"key": "lost"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"key":"sk-codex-y","outcome":"the service has not taken it over"}`, string(got))
	closed, cancel := context.WithCancel(t.Context())
	cancel()
	got, err = v.Handle(closed, pipe.Order{Verb: "add", Words: given{"key": "a"}}, nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"key":"sk-codex-x","outcome":"taken over"}`, string(got), "the page is closed")
	got, err = v.try("revoke", given{"key": "other"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"outcome":"the service goes by another file"}`, string(got))
}

// Every key of the file can be revoked.
func TestNamesOfKeys(t *testing.T) {
	v, done := table(t, false)
	for _, name := range []string{"_ci", ".old", "-x", "a.b"} {
		_, err := v.try("revoke", given{"key": name})
		require.EqualError(t, err, "there is no key", name)
	}
	assert.Len(t, *done, 4)
}

// Orders that no page makes are refused before anything happens.
func TestHostileOrders(t *testing.T) {
	v, done := table(t, false)
	for name, tc := range map[string]struct {
		verb  string
		words given
	}{
		"an unknown verb":            {"exec", nil},
		"no verb":                    {"", nil},
		"a verb in capitals":         {"Drain", given{"worker": "a"}},
		"no word":                    {"drain", nil},
		"an empty word":              {"drain", given{"worker": ""}},
		"a further word":             {"drain", given{"worker": "a", "invocation": "x"}},
		"an option":                  {"drain", given{"worker": "--stop"}},
		"a path":                     {"drain", given{"worker": "../a"}},
		"a slash":                    {"drain", given{"worker": "a/b"}},
		"a line":                     {"drain", given{"worker": "a\nb"}},
		"a line at the end":          {"revoke", given{"key": "a\n"}},
		"a NUL":                      {"pause", given{"account": "a\x00"}},
		"a space":                    {"add", given{"key": "a b"}},
		"a hash mark":                {"add", given{"key": "a#b"}},
		"a long name":                {"add", given{"key": strings.Repeat("a", 65)}},
		"a limit that is none":       {"add", given{"key": "a", "models": "x"}},
		"a limit of words":           {"add", given{"key": "a", "concurrent": "4 remotes=x"}},
		"a negative limit":           {"add", given{"key": "a", "concurrent": "-1"}},
		"another file":               {"add", given{"key": "a", "file": "/etc/shadow"}},
		"a parameter in the period":  {"usage", given{"since": "7d&by=key", "by": "day"}},
		"a parameter in the columns": {"usage", given{"since": "7d", "by": "day&x=1"}},
		"a path in the parts":        {"watch", given{"of": "status/../keys"}},
		"many parts":                 {"watch", given{"of": strings.Repeat("a,", 20) + "a"}},
		"a remote of a path":         {"transcript", given{"remote": "../build"}},
		"a remote of an option":      {"transcript", given{"remote": "--json"}},
		"a thread of a path":         {"transcript", given{"remote": "build", "thread": "../" + aThread}},
		"a thread of a name":         {"send", given{"remote": "build", "thread": "-all", "text": "x"}},
		"a message without a text":   {"send", given{"remote": "build", "text": " \n"}},
		"a message without an end":   {"send", given{"remote": "build", "text": strings.Repeat("x", 6<<10+1)}},
		"a message with a NUL":       {"send", given{"remote": "build", "text": "a\x00b"}},
		"a message that is no text":  {"send", given{"remote": "build", "text": "a\xff"}},
		"a directory for a message":  {"send", given{"remote": "build", "text": "x", "cwd": "/"}},
		"an approval of all":         {"approve", given{"remote": "build", "thread": aThread, "decision": "accept"}},
		"an approval of any thread":  {"approve", given{"remote": "build", "question": aQuestion, "decision": "accept"}},
		"a decision of a policy":     {"approve", given{"remote": "build", "thread": aThread, "question": aQuestion, "decision": "acceptWithExecpolicyAmendment"}},
		"a decision in JSON":         {"approve", given{"remote": "build", "thread": aThread, "question": aQuestion, "decision": `{"a":1}`}},
		"a question in JSON":         {"approve", given{"remote": "build", "thread": aThread, "question": `"x"`, "decision": "accept"}},
		"an interrupt of any thread": {"interrupt", given{"remote": "build"}},
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
	values := given{"since": "7d", "thread": aThread, "question": aQuestion, "decision": "accept"}
	for verb, of := range v.all {
		words := given{}
		for _, need := range of.Needs {
			words[need] = cmp.Or(values[need], "a")
		}
		_, err := v.try(verb, words)
		assert.Equal(t, of.Changes, errors.Is(err, verbs.ErrReadOnly), verb)
	}
	assert.ElementsMatch(t, []string{"doctor", "a follow "}, *done)
	for _, verb := range []string{"drain", "add", "revoke", "send", "approve", "interrupt"} {
		assert.True(t, v.all[verb].Changes, verb)
	}
}
