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
		"expected <string> and a < b":        "expected <string> and a < b",
		"see http://10.0.0.5:8080/v1, twice": "see [address], twice",
		"key sk-abc***xyz is wrong":          "key sk-… is wrong",
		"\u202ehidden\u200b":                 "hidden",
		"caf\xff\u00e9":                      "café",
		"":                                   "",
	} {
		assert.Equal(t, want, CleanWords(s), "%q", s)
	}
	long := CleanWords(strings.Repeat("é", 1000))
	assert.LessOrEqual(t, len(long), maxQuoted+len("…"))
	assert.True(t, utf8.ValidString(long))
}
