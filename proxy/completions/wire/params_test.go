package wire

import (
	"reflect"
	"testing"

	"codex-proxy/proxy/openai/openaitest"
)

func TestParametersInTheDocs(t *testing.T) {
	openaitest.InTheDocs(t, "parameters of completions", openaitest.ParamTable(completionParams))
}

func TestParametersAreDecodedOrHaveTypes(t *testing.T) {
	openaitest.HonouredAreDecoded(t, completionParams, reflect.TypeFor[rawCompletion]())
	openaitest.IgnoredHaveTypes(t, completionParams)
}
