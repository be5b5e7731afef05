package wire

import (
	"reflect"
	"testing"

	"codex-proxy/proxy/openai/openaitest"
)

func TestParametersInTheDocs(t *testing.T) {
	t.Run("responses", func(t *testing.T) {
		openaitest.InTheDocs(t, "parameters of responses", openaitest.ParamTable(Params))
	})
	t.Run("compact", func(t *testing.T) {
		openaitest.InTheDocs(t, "parameters of compactions", openaitest.ParamTable(compactParams))
	})
}

func TestParametersAreDecodedOrHaveTypes(t *testing.T) {
	openaitest.HonouredAreDecoded(t, Params, reflect.TypeFor[rawResponse](), "type")
	openaitest.HonouredAreDecoded(t, compactParams, reflect.TypeFor[rawCompact](), "prompt_cache_key") // it is ignored, and read
	openaitest.IgnoredHaveTypes(t, Params)
}
