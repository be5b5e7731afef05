package jsonbody_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/chat/wire"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

func TestWeigh(t *testing.T) {
	for body, want := range map[string]jsonbody.Weight{
		``:                                      {},
		`null`:                                  {Elements: 1},
		`{}`:                                    {Elements: 1},
		`{"model":"a","n":3}`:                   {Elements: 5, Model: "a", Choices: 3},
		` { "n" : 3 , "model" : "a" } `:         {Elements: 5, Model: "a", Choices: 3},
		`{"x":{"model":"b","n":2},"y":"model"}`: {Elements: 9},
		`{"model":"\u0061","n":"3"}`:            {Elements: 5, Growth: 2},
		`{"model":null,"n":1e3}`:                {Elements: 5, Choices: 1000},
		`{"n":0.80000000000000000000e1}`:        {Elements: 3, Choices: 8},
		`{"model":"a","model":"b"}`:             {Elements: 5, Model: "b"},
		`{"m":[{},{"a":[{}]}],"n":{}}`:          {Elements: 10, Items: 2},
		`{"m":"\"}{[\\","n":1`:                  {Elements: 5, Growth: 6, Choices: 1},
		`{"m":"`:                                {Elements: 3},
		"{\"m\":\"a\xff\"}":                     {Elements: 3, Growth: 20},
		`{"model":"` + strings.Repeat("a", 300) + `"}`: {Elements: 3, Model: strings.Repeat("a", openai.MaxModelName+1)},
	} {
		assert.Equal(t, want, jsonbody.Weigh([]byte(body)), body)
	}
}

// noise is a random JSON value.
func noise(random *rand.Rand, depth int) any {
	switch n := random.IntN(8); {
	case n == 0 && depth > 0:
		list := make([]any, random.IntN(5))
		for i := range list {
			list[i] = noise(random, depth-1)
		}
		return list
	case n <= 2 && depth > 0:
		object := map[string]any{}
		for range random.IntN(5) {
			object[strings.Repeat("\"\\a", random.IntN(4))] = noise(random, depth-1)
		}
		return object
	case n == 3:
		return random.Int()
	case n == 4:
		return nil
	case n == 5:
		return random.IntN(2) == 0
	default:
		return strings.Repeat("é\"\\{[,:\n", random.IntN(5))
	}
}

// The elements are the tokens of a JSON reader, without the ends of lists and objects.
func TestWeighCountsTokens(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		body, err := openai.Encode(noise(random, 5))
		require.NoError(t, err)
		want := int64(0)
		for from := jsontext.NewDecoder(bytes.NewReader(body)); ; {
			token, err := from.ReadToken()
			if err != nil {
				break
			}
			if kind := token.Kind(); kind != '}' && kind != ']' {
				want++
			}
		}
		require.Equal(t, want, jsonbody.Weigh(body).Elements, string(body))
	}
}

func TestWeighAllocatesNothing(t *testing.T) {
	body := []byte(`{"messages":[` + strings.Repeat(`{"role":"user","content":"a\"b"},`, 1000) + `{}]}`)
	assert.Zero(t, testing.AllocsPerRun(10, func() { jsonbody.Weigh(body) }))
}

func BenchmarkWeigh(b *testing.B) {
	for name, body := range map[string]string{
		"chat":   `{"model":"demo","messages":[{"role":"user","content":"hello"}]}`,
		"prompt": `{"model":"demo","messages":[{"role":"user","content":"` + strings.Repeat("word ", 100_000) + `"}]}`,
		"coding": `{"model":"demo","messages":[` + strings.Repeat(`{"role":"user","content":"`+strings.Repeat(
			`for i := range 10 {\n\tfmt.Println(\"x\")\n}\n`, 20)+`"},`, 500) + `{"role":"user","content":""}]}`,
	} {
		b.Run(fmt.Sprintf("%s/%d", name, len(body)), func(b *testing.B) {
			data := []byte(body)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				jsonbody.Weigh(data)
			}
		})
		b.Run(fmt.Sprintf("%s/%d/decode", name, len(body)), func(b *testing.B) {
			for b.Loop() {
				if _, err := wire.Decode([]byte(body), jsonbody.Reading{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
