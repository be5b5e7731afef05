package schema

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// of is a schema with one request.
func of(method, description, params, result string) string {
	return fmt.Sprintf(`{"definitions":{"ClientRequest":{"oneOf":[{"description":%q,"properties":{"id":{},
		"method":{"enum":[%q]},"params":{"$ref":"#/definitions/v2/XParams"}}}]},
		"v2":{"XParams":%s,"XResponse":%s,"Word":{"enum":["a"],"type":"string"},"Login":{"properties":{"name":{},
		"refresh_token":{"type":"string"}}},"Loop":{"properties":{"loop":{"$ref":"#/definitions/v2/Loop"}}}}}}`,
		description, method, params, result)
}

// Only a request that its name, its description, its parameters and its result all show as one that reads does pass.
func TestRequestsThatRead(t *testing.T) {
	const (
		id   = `{"properties":{"threadId":{"type":"string"}}}`
		some = `{"properties":{"thread":{"type":"object"}}}`
		list = `{"properties":{"data":{"type":"array"}}}`
	)
	for _, c := range []struct {
		what, method, description, params, result string
		want                                      bool
	}{
		{"reads", "thread/x/read", "Reads it.", id, some, true},
		{"lists", "thread/x/list", "", `{"properties":{"cursor":{"type":["string","null"]},"includeOld":{"type":"boolean"},
			"sortKey":{"anyOf":[{"$ref":"#/definitions/v2/Word"},{"type":"null"}]},"threadIds":{"items":{"type":"string"},
			"type":["array","null"]}}}`, list, true},
		{"has nothing to choose", "thread/x/get", "", `{"type":"null"}`, some, true},
		{"refers to itself", "thread/x/get", "", id, `{"$ref":"","properties":{"a":{"$ref":"#/definitions/v2/Loop"}}}`, true},
		{"does", "thread/x/start", "", id, some, false},
		{"has a verb of its own", "thread/x/markRead", "", id, some, false},
		{"has one part", "read", "", id, some, false},
		{"says what it does", "thread/x/read", "Reads the inbox, and marks all as read.", id, some, false},
		{"has a flag", "thread/x/read", "", `{"properties":{"refreshToken":{"type":"boolean"}}}`, some, false},
		{"takes a value", "thread/x/read", "", `{"properties":{"value":{"type":"string"}}}`, some, false},
		{"takes an object", "thread/x/read", "", `{"properties":{"includeAll":{"type":"object"}}}`, some, false},
		{"takes an object that is named", "thread/x/read", "", `{"properties":{"threadId":{"$ref":"#/definitions/v2/Login"}}}`, some,
			false},
		{"takes anything", "thread/x/read", "", `{"properties":{"threadId":true}}`, some, false},
		{"takes more", "thread/x/read", "", `{"additionalProperties":true}`, some, false},
		{"takes one of two", "thread/x/read", "", `{"oneOf":[{"properties":{"value":{}}}]}`, some, false},
		{"refers to nothing", "thread/x/read", "", `{"properties":{"threadId":{"$ref":"#/definitions/v2/No"}}}`, some, false},
		{"gives nothing", "thread/x/read", "", id, `{"properties":{}}`, false},
		{"lists nothing", "thread/x/list", "", id, some, false},
		{"has no result", "thread/x/read", "", id, `null`, false},
		{"gives a login", "thread/x/read", "", id, `{"properties":{"a":{"items":{"anyOf":[{"$ref":"#/definitions/v2/Login"}]}}}}`,
			false},
	} {
		found, err := parse([]byte(of(c.method, c.description, c.params, c.result)))
		require.NoError(t, err, c.what)
		assert.Equal(t, c.want, found[c.method] != nil || len(found) > 0, c.what)
	}
}

// A schema that is damaged, or not one, gives no requests.
func TestDamagedSchemas(t *testing.T) {
	whole := of("thread/x/read", "", `{}`, `{"properties":{"a":{}}}`)
	for text, want := range map[string]string{
		"":                          "does not parse",
		"null":                      "types do not parse",
		whole[:len(whole)/2]:        "does not parse",
		`{"definitions":{"v2":{}}}`: "has 0 requests",
		`{"definitions":{"v2":[]}}`: "types do not parse",
		strings.Repeat("[", 1<<20):  "does not parse",
		`{"definitions":{"v2":{},"ClientRequest":{"oneOf":[` + strings.Repeat("{},", maxRequests) + `{}]}}}`: "requests",
		`{"definitions":{"v2":{},"ClientRequest":{"oneOf":[{},{}]}}}`:                                        "twice",
	} {
		found, err := parse([]byte(text))
		assert.ErrorContains(t, err, want, "%.40s", text)
		assert.Empty(t, found)
	}
	deep := `{"properties":{"a":` + strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000) + `}}`
	found, err := parse([]byte(of("thread/x/read", "", `{}`, deep)))
	require.NoError(t, err)
	assert.Contains(t, found, "thread/x/read")
	wide := `{"properties":{"a":{"anyOf":[` + strings.Repeat(`{},`, maxNodes) + `{}]}}}`
	found, err = parse([]byte(of("thread/x/read", "", `{}`, wide)))
	require.NoError(t, err)
	assert.Empty(t, found, "too large to judge")
}

// The schema is read once for each program, and a start without one leaves nothing behind.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	program, keep := filepath.Join(dir, "codex"), filepath.Join(dir, "keep")
	require.NoError(t, os.Mkdir(keep, 0o700))
	require.NoError(t, os.WriteFile(program, []byte("1"), 0o755))
	calls := 0
	writes := func(text string) func(context.Context, string) error {
		return func(_ context.Context, out string) error {
			calls++
			return os.WriteFile(filepath.Join(out, fileName), []byte(text), 0o600)
		}
	}
	good := writes(of("thread/x/read", "", `{}`, `{"properties":{"a":{}}}`))
	load := func(generate func(context.Context, string) error) (Requests, error) {
		return Load(t.Context(), program, program, keep, generate)
	}
	for name, bad := range map[string]func(context.Context, string) error{
		"more than 8 MiB": writes(strings.Repeat(" ", maxFile+1)),
		"cannot read":     writes("{"),
		"no such file":    func(context.Context, string) error { return nil },
		"does not write":  func(context.Context, string) error { return errors.New("no") },
		"too many levels": func(_ context.Context, out string) error {
			return os.Symlink("/dev/zero", filepath.Join(out, fileName))
		},
	} {
		found, err := load(bad)
		assert.ErrorContains(t, err, name)
		assert.Empty(t, found)
	}
	calls = 0
	for range 2 {
		found, err := load(good)
		require.NoError(t, err)
		assert.Contains(t, found, "thread/x/read")
	}
	assert.Equal(t, 1, calls, "the second start reads the result")
	entries, err := os.ReadDir(keep)
	require.NoError(t, err)
	assert.Len(t, entries, 1)

	require.NoError(t, os.WriteFile(filepath.Join(keep, cacheName), []byte("{"), 0o600))
	_, err = load(good)
	require.NoError(t, err)
	assert.Equal(t, 2, calls, "a damaged result counts for nothing")
	require.NoError(t, os.WriteFile(program+".new", []byte("2"), 0o755)) // of the same size
	require.NoError(t, os.Rename(program+".new", program))
	_, err = load(good)
	require.NoError(t, err)
	assert.Equal(t, 3, calls, "another program")
}
