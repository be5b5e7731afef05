package jsonbody

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
)

// FuzzNames: a body is refused if, and only if, a strict reader refuses it.
func FuzzNames(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":"\"","\u0062":{}},"x",["y","y"]],"c":{"c":1.5e3,"":"","\\":null}}`))
	f.Add(
		[]byte(
			`{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,` +
				`"9":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		body = ValidUTF8(body)
		if !jsontext.Value(body).IsValid(AllowDuplicates) {
			return
		}
		assert.Equal(t, jsontext.Value(body).IsValid(), CheckDuplicateNames(body) == nil)
	})
}
