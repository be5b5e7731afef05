package openai

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestCleanWords(t *testing.T) {
	for s, want := range map[string]string{
		"plain words":          "plain words",
		"a\r\n\tb\x00c\x1b[2J": "a b c [2J",
		"<html><head><title>502 Bad Gateway</title></head><body><h1>no</h1></body></html>": "502 Bad Gateway",
		"<!DOCTYPE html><body><script>steal()</script><h1>Not&nbsp;found</h1><p>no":        "Not found no",
		"expected <string> and a < b":         "expected <string> and a < b",
		"see http://10.0.0.5:8080/v1, twice":  "see [address], twice",
		"dial tcp 10.0.0.5:8080: refused":     "dial tcp [address]: refused",
		"lookup 10.0.0.53.":                   "lookup [address].",
		"no route to model-1.intern:8000":     "no route to [address]",
		"[fe80::1]:80 and localhost:80":       "[address] and [address]",
		"version 1.2.3, 12:30, a.b: 1.5":      "version 1.2.3, 12:30, a.b: 1.5",
		"Incorrect API key provided: a1b2c3.": "Incorrect API key provided: ….",
		"key sk-abc***xyz is wrong":           "key sk-… is wrong",
		"keys gsk_abcd, xai-abcd, AIzaSyabc":  "keys gsk_…, xai-…, AIza…",
		"\u202ehidden\u200b":                  "hidden",
		"caf\xff\u00e9":                       "café",
		"":                                    "",
	} {
		assert.Equal(t, want, CleanWords(s), "%q", s)
	}
	assert.Equal(t, "http://h/v1?api-key=…&x=1, id", MaskSecrets("http://h/v1?api-key=abcd&x=1, id"))
	long := CleanWords(strings.Repeat("é", 1000))
	assert.LessOrEqual(t, len(long), maxQuoted+len("…"))
	assert.True(t, utf8.ValidString(long))
}
