package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
)

// schemas returns the schemas of the document by their names.
func schemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	var doc struct {
		Components struct {
			Schemas map[string]map[string]any
		}
	}
	require.NoError(t, yaml.Unmarshal(Document(), &doc))
	require.NotEmpty(t, doc.Components.Schemas)
	return doc.Components.Schemas
}

func texts(v any) (list []string) {
	values, _ := v.([]any)
	for _, v := range values {
		list = append(list, v.(string))
	}
	return list
}

// Each schema of an object is a Go type with the same members; those that a Go value may leave out are not required.
func TestTypesAreThoseOfTheDocument(t *testing.T) {
	types := map[string]any{
		"Error": Error{}, "Failure": Failure{}, "NewSession": NewSession{}, "NewCommand": NewCommand{}, "Limits": Limits{},
		"Owner": Owner{}, "Session": Session{}, "Sessions": Sessions{}, "Plan": Plan{}, "PlanSandbox": PlanSandbox{}, "Command": Command{},
		"Outcome": outcome.Outcome{}, "Usage": Usage{}, "Cancel": Cancel{}, "Line": Line{}, "LogEnd": LogEnd{},
		"Artifact": Artifact{}, "Artifacts": Artifacts{}, "NewRepository": NewRepository{}, "Repository": Repository{},
		"Repositories": Repositories{}, "Prune": Prune{}, "Pruned": Pruned{}, "Status": Status{},
		"TTY": TTY{}, "Watched": Watched{},
	}
	for name, schema := range schemas(t) {
		if schema["type"] != "object" {
			continue
		}
		require.Contains(t, types, name)
		var members, always []string
		of := reflect.TypeOf(types[name])
		for field := range of.Fields() {
			member, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			members = append(members, member)
			if options == "" {
				always = append(always, member)
			}
		}
		documented, _ := schema["properties"].(map[string]any)
		assert.ElementsMatch(t, members, slices.Collect(maps.Keys(documented)), name)
		assert.ElementsMatch(t, always, texts(schema["required"]), name)
		assert.Equal(t, false, schema["additionalProperties"], name)
		delete(types, name)
	}
	assert.Empty(t, types, "not in the document")
}

func TestVocabulariesAreThoseOfTheDocument(t *testing.T) {
	s := schemas(t)
	var codes, words []string
	for code := range statuses {
		codes = append(codes, string(code))
	}
	for _, word := range outcome.Words() {
		words = append(words, string(word))
	}
	assert.ElementsMatch(t, codes, texts(s["Code"]["enum"]))
	assert.ElementsMatch(t, words, texts(s["Word"]["enum"]))
	assert.Equal(t, 500, Code("later").Status())
	assert.Equal(t, 429, QueueFull.Status())
}

// The examples are what clients send and get.
func TestValuesFitTheDocument(t *testing.T) {
	var doc any
	require.NoError(t, yaml.Unmarshal(Document(), &doc))
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("openapi.json", jsonOf(t, doc)))
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	command := Command{Number: 1, State: CommandEnded, Args: []string{"true"}, Created: at, Started: at, Ended: at,
		Outcome: &outcome.Outcome{Word: outcome.Succeeded, Text: "ok"}, Usage: &Usage{Output: 3}}
	for name, v := range map[string]any{
		"NewSession": NewSession{Commands: []NewCommand{{Args: []string{"a"}, Limits: Limits{Timeout: Duration(time.Minute)}}}},
		"Session":    Session{ID: "a", State: SessionIdle, Created: at, Commands: []Command{command}},
		"Plan":       Plan{Properties: []string{}, Commands: []NewCommand{{Args: []string{"a"}}}},
		"Failure":    Failure{&Error{Code: Conflict}},
		"Line":       Line{Time: at, Stream: logs.Stderr, Text: "x", Newline: true},
		"LogEnd":     LogEnd{Command: command},
		"Status":     Status{Since: at},
	} {
		schema, err := c.Compile("openapi.json#/components/schemas/" + name)
		require.NoError(t, err)
		assert.NoError(t, schema.Validate(jsonOf(t, v)), name)
	}
}

func jsonOf(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	return value
}

func TestDecode(t *testing.T) {
	var got NewCommand
	require.NoError(t, Decode(strings.NewReader(`{"args":["a"],"limits":{"timeout":"90s"}}`+"\n"), &got))
	assert.Equal(t, NewCommand{Args: []string{"a"}, Limits: Limits{Timeout: Duration(90 * time.Second)}}, got)
	for text, want := range map[string]string{
		`{"arg":[]}`:                 `unknown field "arg"`,
		`{} {}`:                      "behind the JSON value",
		`{"limits":{"timeout":"9"}}`: `"9" is no duration: write a number with a unit`,
	} {
		assert.ErrorContains(t, Decode(strings.NewReader(text), &got), want)
	}
}

func TestChunks(t *testing.T) {
	for _, want := range []logs.Chunk{
		{Time: time.Unix(1, 2), Stream: logs.Stderr, Offset: 1 << 40, Data: []byte("x\x00")},
		{Offset: 3, Data: []byte{}},
	} {
		got, err := ParseChunk(AppendChunk(nil, want))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := ParseChunk(make([]byte, chunkHeader-1))
	assert.ErrorContains(t, err, "shorter than its head")
}

func TestShellFrames(t *testing.T) {
	var wire bytes.Buffer
	require.NoError(t, WriteShellFrame(&wire, ShellData, []byte("ls\n")))
	require.NoError(t, WriteShellFrame(&wire, ShellSize, []byte{0, 24, 0, 80}))
	require.ErrorContains(t, WriteShellFrame(&wire, ShellData, make([]byte, maxShellFrame+1)), "longer than 65536")
	kind, payload, err := ReadShellFrame(&wire)
	require.NoError(t, err)
	assert.Equal(t, ShellData, kind)
	assert.Equal(t, "ls\n", string(payload))
	kind, payload, err = ReadShellFrame(&wire)
	require.NoError(t, err)
	assert.Equal(t, ShellSize, kind)
	assert.Equal(t, []byte{0, 24, 0, 80}, payload)
	_, _, err = ReadShellFrame(&wire)
	assert.Equal(t, io.EOF, err)
	for _, bad := range []string{"\x03\x00\x00\x00\x00", "\x00\xff\x00\x00\x00"} {
		_, _, err = ReadShellFrame(strings.NewReader(bad))
		assert.ErrorContains(t, err, "does not know")
	}
	_, _, err = ReadShellFrame(strings.NewReader("\x00\x00\x00\x00\x02a"))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
