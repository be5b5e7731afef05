package operators

import (
	"encoding"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/recent"
	"codex-proxy/daemon/usagetable"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/control"
)

var update = flag.Bool("update", false, "write contract.d.ts")

// The types of the control socket for programs in TypeScript and JavaScript are written from those of the server.
func TestContract(t *testing.T) {
	const path = "contract.d.ts"
	w := &declarations{known: map[string]bool{}}
	w.text = "// The answers of the control socket: GET /v1/watch sends events. Write it anew: " +
		"go test ./daemon/operators -run TestContract -update\n"
	roots := []any{Event{}, recent.Requests{}, usagetable.Table{}, control.AccountOrder{}, control.Request{}}
	for _, root := range roots {
		w.typeOf(reflect.TypeOf(root))
	}
	for i := 0; i < len(w.queue); i++ {
		w.declare(w.queue[i])
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(w.text), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, w.text, string(got), "write it anew: go test ./daemon/operators -run TestContract -update")
	assert.NotContains(t, w.text, "any", "each field has a type")
	for _, secret := range []string{"hash", "secret", "token:", "prompt", "content"} {
		assert.NotContains(t, w.text, secret)
	}
}

// declarations are interfaces of TypeScript.
type declarations struct {
	text  string
	known map[string]bool
	queue []reflect.Type
}

// nameOf is the name of a struct, with its package if another one has the same.
func (d *declarations) nameOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[accounts.Account]():
		return "KnownAccount"
	case reflect.TypeFor[control.Request]():
		return "DrainOrder"
	}
	return t.Name()
}

func (d *declarations) typeOf(t reflect.Type) string {
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.typeOf(t.Elem())
	case reflect.Slice:
		return d.typeOf(t.Elem()) + "[]"
	case reflect.Map:
		return "Record<string, " + d.typeOf(t.Elem()) + ">"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Struct:
		if name := d.nameOf(t); !d.known[name] {
			d.known[name] = true
			d.queue = append(d.queue, t)
		}
		return d.nameOf(t)
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
		return "number"
	}
	return "any"
}

func (d *declarations) declare(t reflect.Type) {
	d.text += "\nexport interface " + d.nameOf(t) + " {\n"
	d.fields(t)
	d.text += "}\n"
}

func (d *declarations) fields(t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			d.fields(f.Type)
			continue
		case name == "-" || !f.IsExported():
			continue
		}
		optional, null := "", ""
		if strings.Contains(options, "omit") {
			optional = "?"
		} else if f.Type.Kind() == reflect.Pointer {
			null = " | null"
		}
		d.text += fmt.Sprintf("  %s%s: %s%s;\n", name, optional, d.typeOf(f.Type), null)
	}
}
