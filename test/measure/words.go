package main

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

// speech are the words that give a program a voice, in place of logged, reported,
// returned, received, means or states.
var speech = regexp.MustCompile(`(?i)\b(told|tell|tells|telling|said|say|says|saying|heard|hear|hears|hearing)\b`)

// wordTable counts the words of speech: in the Go files of the product and of the
// tests, and in all other files, documents (*.md) apart.
func wordTable(texts []text) table {
	out := table{
		title: "words of speech (told, tell, said, say, heard, hear, ...)",
		heads: []string{"in", "comments", "strings", "identifiers", "all"},
	}
	kinds := map[kind]*words{productGo: {}, testGo: {}, document: {}, other: {}}
	for _, t := range texts {
		kinds[t.kind].count(t)
	}
	for _, k := range []kind{productGo, testGo} {
		w := kinds[k]
		out.add(k, w.comments, w.strings, w.identifiers, w.comments+w.strings+w.identifiers)
	}
	out.add(document, "", "", "", kinds[document].comments)
	out.add(other, "", "", "", kinds[other].comments)
	return out
}

// words is a number of words, by their place in the source.
type words struct{ comments, strings, identifiers int }

// count adds the words of a file. All words of a file that is no Go are comments.
func (w *words) count(t text) {
	if t.kind != productGo && t.kind != testGo {
		w.comments += found(t.data)
		return
	}
	var s scanner.Scanner
	fset := token.NewFileSet()
	s.Init(fset.AddFile(t.path, -1, len(t.data)), []byte(t.data), nil, scanner.ScanComments)
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return
		case token.COMMENT:
			w.comments += found(literal)
		case token.STRING:
			w.strings += found(strings.ReplaceAll(literal, `\n`, " "))
		case token.IDENT:
			w.identifiers += found(literal)
		}
	}
}

func found(s string) int { return len(speech.FindAllString(s, -1)) }
