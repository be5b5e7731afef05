package appserver

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/history"
)

// Requests that differ in more than their items have different fingerprints.
func TestFingerprint(t *testing.T) {
	seen := map[[32]byte]string{TurnRequest{}.Fingerprint(): "nothing"}
	different := func(r TurnRequest, what string) {
		k := r.Fingerprint()
		assert.Empty(t, seen[k], what)
		seen[k] = what
	}
	empty := ""
	different(TurnRequest{BaseInstructions: &empty}, "empty instructions")
	fields := reflect.TypeFor[TurnRequest]()
	for i := range fields.NumField() {
		var r TurnRequest
		switch field := reflect.ValueOf(&r).Elem().Field(i).Addr().Interface().(type) {
		case *string:
			*field = "x"
		case **string:
			*field = new("x")
		case *json.RawMessage:
			*field = []byte(`{}`)
		case *[]Tool:
			*field = []Tool{{Name: "x", InputSchema: []byte(`{}`)}}
		case **Environment:
			*field = &Environment{ID: "x", Dir: "/"}
		case *[]history.Item, *func(), *func(string):
			continue
		default:
			t.Fatal(fields.Field(i).Name)
		}
		different(r, fields.Field(i).Name)
	}
}
