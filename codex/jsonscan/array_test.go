package jsonscan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestElements(t *testing.T) {
	for _, text := range []string{`[]`, ` [ ] `, `[1]`, ` [ 1 , {"c":"]"}, "\\" ,[ [] ], "\"]", null,-1.5e3 ] `} {
		var want []json.RawMessage
		assert.NoError(t, json.Unmarshal([]byte(text), &want))
		got, err := Elements([]byte(text))
		assert.NoError(t, err)
		assert.Len(t, got, len(want))
		for i := range want {
			assert.Equal(t, string(want[i]), string(got[i]))
		}
	}
	for _, bad := range []string{``, `[`, `[1`, `[1,`, `[1 2]`, `["]`, `{}`, `[,]`, `[1,]`} {
		_, err := Elements([]byte(bad))
		assert.ErrorIs(t, err, ErrSyntax, bad)
	}
}
