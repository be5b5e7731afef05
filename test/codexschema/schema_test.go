package codexschema

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The check finds wrong types.
func TestSchemaFindsMistakes(t *testing.T) {
	var s schema
	for _, dir := range Generate(t) {
		s.root = load(t, dir, "v2/TurnCompletedNotification")
	}
	assert.NotEmpty(t, s.check(reflect.TypeFor[struct {
		Turn struct {
			ID int `json:"id"`
		} `json:"turn"`
	}](), s.root, ""))
	assert.NotEmpty(t, s.check(reflect.TypeFor[struct {
		Turn struct {
			Identity string `json:"identity"`
		} `json:"turn"`
	}](), s.root, ""))
}
