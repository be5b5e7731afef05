// Package codexschema compares the types of the messages with the schemas that the installed codex generates.
package codexschema

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"codex-proxy/test/codexes"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Compare compares message types, by the schema file that describes each, and methods, by the schema file that lists
// them, with those of each codex of the tests. An older one than the pinned may lack a field or a message, and has none
// of another type.
func Compare(t *testing.T, types map[string]any, methods map[string][]string) {
	t.Helper()
	pinned := codexes.Pinned(t)
	for version, dir := range Generate(t) {
		t.Run(version, func(t *testing.T) {
			for file, value := range types {
				if !exists(dir, file) && version != pinned {
					continue
				}
				s := schema{root: load(t, dir, file)}
				for _, problem := range s.check(reflect.TypeOf(value), s.root, file) {
					assert.True(t, strings.HasSuffix(problem, missing) && version != pinned, problem)
				}
			}
			for file, used := range methods {
				listed := Methods(t, dir, file)
				for _, m := range used {
					assert.True(t, slices.Contains(listed, m), "%s does not list %s", file, m)
				}
			}
		})
	}
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file+".json"))
	return err == nil
}

// missing ends what is wrong with a field that a schema does not have.
const missing = " does not exist"

// Methods lists the methods of one file of a schema.
func Methods(t *testing.T, dir, file string) (methods []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file+".json"))
	require.NoError(t, err)
	var root struct {
		OneOf []struct {
			Properties struct{ Method struct{ Enum []string } }
		}
	}
	require.NoError(t, json.Unmarshal(b, &root))
	for _, one := range root.OneOf {
		methods = append(methods, one.Properties.Method.Enum...)
	}
	require.NotEmpty(t, methods)
	return methods
}

// Generate has each codex of the tests write its schema, and returns the directories by version.
func Generate(t *testing.T) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	for version, codex := range codexes.All(t) {
		dirs[version] = t.TempDir()
		out, err := exec.CommandContext(t.Context(), codex, "app-server", "generate-json-schema", "--experimental",
			"--out", dirs[version]).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return dirs
}

type node = map[string]any

func load(t *testing.T, dir, file string) (n node) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &n))
	return n
}

// schema is one file of JSON schema.
type schema struct{ root node }

// alternatives flattens $ref, allOf, anyOf and oneOf.
func (s schema) alternatives(n node) (all []node) {
	if ref, ok := n["$ref"].(string); ok {
		definitions := s.root["definitions"].(node)
		return s.alternatives(definitions[strings.TrimPrefix(ref, "#/definitions/")].(node))
	}
	all = []node{n}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := n[key].([]any)
		for _, sub := range list {
			if sub, ok := sub.(node); ok {
				all = append(all, s.alternatives(sub)...)
			}
		}
	}
	return all
}

// check lists the fields of a Go type that the schema does not have. In a union, one alternative with the field is
// enough.
func (s schema) check(t reflect.Type, n any, path string) []string {
	sub, ok := n.(node)
	if !ok || opaque(t) {
		return nil // the schema "true" takes anything
	}
	alternatives := s.alternatives(sub)
	switch t.Kind() {
	case reflect.Pointer:
		return s.check(t.Elem(), n, path)
	case reflect.Struct:
		return s.checkFields(t, alternatives, path)
	case reflect.Slice:
		for _, a := range alternatives {
			if items, ok := a["items"]; ok {
				return s.check(t.Elem(), items, path+"[]")
			}
		}
		return []string{path + " is no array"}
	}
	want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer",
		reflect.Int64: "integer", reflect.Map: "object"}[t.Kind()]
	for _, a := range alternatives {
		if hasType(a, want) {
			return nil
		}
	}
	return []string{path + " is no " + want}
}

func (s schema) checkFields(t reflect.Type, alternatives []node, path string) (problems []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		at, found := path+"."+name, []string{path + "." + name + missing}
		for _, a := range alternatives {
			properties, _ := a["properties"].(node)
			if p, ok := properties[name]; ok {
				if found = s.check(t.Field(i).Type, p, at); len(found) == 0 {
					break
				}
			}
		}
		problems = append(problems, found...)
	}
	return problems
}

// opaque types take any JSON, or read it by themselves.
func opaque(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func hasType(n node, want string) bool {
	switch have := n["type"].(type) {
	case string:
		return have == want
	case []any:
		for _, h := range have {
			if h == want {
				return true
			}
		}
	}
	return false
}
