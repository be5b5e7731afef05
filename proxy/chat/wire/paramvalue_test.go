package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
)

// Ignored parameters of a wrong type or range are refused, as by OpenAI.
func TestValuesOfIgnoredParameters(t *testing.T) {
	pairs := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	long := func(n int) string { return strings.Repeat("é", n) }
	for name, values := range map[string]struct {
		good                []string
		wrongType, outside  []string
		notOfChat, notOfAll bool
	}{
		"temperature": {good: []string{"0", "2", "0.30000000000000004", "1e0", "null"},
			wrongType: []string{`"hot"`, `"1"`, "[]", "{}", "true", "false", `""`}, outside: []string{"3", "-0.1", "1e999"}},
		"top_p":             {good: []string{"0", "1"}, wrongType: []string{`"x"`}, outside: []string{"2", "-1"}},
		"presence_penalty":  {good: []string{"-2", "2"}, wrongType: []string{`"x"`}, outside: []string{"2.1"}},
		"frequency_penalty": {good: []string{"-2", "2"}, wrongType: []string{"{}"}, outside: []string{"-3"}},
		"seed": {good: []string{"0", "-5", "7.0"}, wrongType: []string{"1.5", `"7"`, "true"},
			outside: []string{"18446744073709551615"}},
		"max_tokens":            {good: []string{"1", "100000"}, wrongType: []string{`"5"`, "1.5"}, outside: []string{"0", "-1"}},
		"max_completion_tokens": {good: []string{"1"}, wrongType: []string{`"5"`}, outside: []string{"0"}},
		"max_output_tokens": {good: []string{"16"}, wrongType: []string{`"16"`}, outside: []string{"15", "0"},
			notOfChat: true},
		"store": {good: []string{"true", "false", "null"}, wrongType: []string{`"yes"`, "1", "[]"}},
		"user": {good: []string{`"a"`, `""`, "null"}, wrongType: []string{"5", "{}"},
			outside: []string{`"` + long(513) + `"`}},
		"metadata": {
			good: []string{"{}", "null", pairs(16), `{"` + long(64) + `":"` + long(512) + `"}`,
				"{" + strings.Repeat(" ", 100) + "}"},
			wrongType: []string{"5", `"a"`, "[]", `{"a":5}`, `{"a":{"b":"c"}}`},
			outside: []string{pairs(17), `{"` + long(65) + `":"v"}`, `{"k":"` + long(513) + `"}`,
				`{"k":"` + strings.Repeat("x", 1<<20) + `"}`},
		},
		"safety_identifier": {good: []string{`"` + long(128) + `"`}, wrongType: []string{"5"},
			outside: []string{`"` + long(129) + `"`}},
		"prompt_cache_key": {good: []string{`"` + long(512) + `"`}, wrongType: []string{"5", "[]"},
			outside: []string{`"` + long(513) + `"`}},
		"prompt_cache_retention": {good: []string{`"24h"`}, wrongType: []string{"24"}, outside: []string{`"25h"`, `""`}},
		"prompt_cache_options":   {good: []string{"{}"}, wrongType: []string{`"x"`}},
		"prediction": {good: []string{`{"type":"content","content":"` + strings.Repeat("x", 1<<20) + `"}`},
			wrongType: []string{`"x"`}},
		"client_metadata": {good: []string{`{"a":"b"}`}, wrongType: []string{"1"}, notOfChat: true},
	} {
		apis := map[string]func(string) error{
			"responses": func(v string) error {
				_, err := wire.Decode(fmt.Appendf(nil, `{"model":"m","input":"x",%q:%s}`, name, v), jsonbody.Reading{})
				return err
			},
			"chat": func(v string) error {
				_, err := Decode(fmt.Appendf(nil,
					`{"model":"m","messages":[{"role":"user","content":"x"}],%q:%s}`, name, v), jsonbody.Reading{})

				return err
			},
		}
		for api, send := range apis {
			table := wire.Params
			if api == "chat" {
				table = chatParams
			}
			if _, has := table[name]; !has {
				continue
			}
			for _, v := range values.good {
				assert.NoError(t, send(v), "%s of %s: %.80s", name, api, v)
			}
			for code, list := range map[string][]string{"invalid_type": values.wrongType, "invalid_value": values.outside} {
				for _, v := range list {
					var invalid *openai.Error
					require.True(t, errors.As(send(v), &invalid), "%s of %s: %.80s", name, api, v)
					assert.Equal(t, code, invalid.Code, "%s of %s: %.80s", name, api, v)
					assert.Equal(t, name, strings.SplitN(invalid.Param, ".", 2)[0])
					assert.Contains(t, invalid.Message, "must")
				}
			}
		}
	}
}
