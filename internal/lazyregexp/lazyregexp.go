// Package lazyregexp has regular expressions that are compiled at their first use: a program has the ones of all its
// commands as variables, and a run needs few of them.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression with methods of regexp.Regexp, which may be called from any goroutine.
type Regexp struct {
	pattern  string
	compiled func() *regexp.Regexp
}

// New returns the expression of a constant pattern. A pattern that does not compile panics at its first use, and at
// once in the program of a test.
func New(pattern string) *Regexp {
	r := &Regexp{pattern, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })}
	if strings.HasSuffix(os.Args[0], ".test") {
		r.compiled()
	}
	return r
}

// String returns the pattern.
func (r *Regexp) String() string { return r.pattern }

// MatchString is regexp.Regexp.MatchString.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindStringSubmatch is regexp.Regexp.FindStringSubmatch.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// ReplaceAllString is regexp.Regexp.ReplaceAllString.
func (r *Regexp) ReplaceAllString(src, repl string) string {
	return r.compiled().ReplaceAllString(src, repl)
}

// ReplaceAllStringFunc is regexp.Regexp.ReplaceAllStringFunc.
func (r *Regexp) ReplaceAllStringFunc(src string, repl func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(src, repl)
}
