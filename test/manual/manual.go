// Package manual lets tests run the commands of the documents. The test that opens a
// document must use each fenced block of commands (sh) and each block that is a file
// (any language, then file=PATH). A block that no test can run has the reason behind
// its language:
//
//	```sh (not run by the tests: it needs a login)
package manual

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Manual is a document, opened by a test.
type Manual struct {
	t      testing.TB
	name   string
	text   string
	blocks []*block
}

// block is a fenced block.
type block struct {
	language, file, excuse string
	line                   int // of its first line
	text                   string
	used                   bool
}

var (
	fence  = regexp.MustCompile("^```(\\S*) ?(.*)$")
	excuse = regexp.MustCompile(`^\(not run by the tests: (.+)\)$`)
)

// Open reads a document by its path from the root of the repository. At the end of the
// test it fails for runnable blocks that were not used.
func Open(t testing.TB, name string) *Manual {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), name))
	require.NoError(t, err)
	m := &Manual{t: t, name: name, text: string(text), blocks: parse(t, name, string(text))}
	t.Cleanup(func() {
		for _, b := range m.blocks {
			assert.False(t, !t.Failed() && b.runnable() && !b.used, "%s:%d: nobody has run this:\n%s", m.name,
				b.line, b.text)
		}
	})
	return m
}

// Root is the directory of go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		require.NotEqual(t, "/", dir, "there is no go.mod above")
	}
}

func parse(t testing.TB, name, text string) (blocks []*block) {
	t.Helper()
	var open *block
	for i, line := range strings.Split(text, "\n") {
		switch match := fence.FindStringSubmatch(strings.TrimLeft(line, " ")); {
		case open != nil && match != nil:
			blocks, open = append(blocks, open), nil
		case open != nil:
			open.text += line + "\n"
		case match != nil:
			open = &block{language: match[1], line: i + 2}
			open.file, _ = strings.CutPrefix(match[2], "file=")
			if open.file == match[2] {
				open.file = ""
			}
			if reason := excuse.FindStringSubmatch(match[2]); reason != nil {
				open.excuse = reason[1]
			}
			require.True(t, match[2] == "" || open.file != "" || open.excuse != "", "%s:%d: what is %q?", name,
				i+1, match[2])
		}
	}
	require.Nil(t, open, "%s: the last block has no end", name)
	return blocks
}

// runnable blocks need a test.
func (b *block) runnable() bool {
	return b.excuse == "" && (b.file != "" || b.language == "sh" || b.language == "console")
}

// Commands are the blocks of commands, in order.
func (m *Manual) Commands() (commands []string) {
	m.t.Helper()
	for _, b := range m.blocks {
		if b.runnable() && b.file == "" {
			require.Equal(m.t, "sh", b.language, "%s:%d: only sh can be run", m.name, b.line)
			b.used = true
			commands = append(commands, b.text)
		}
	}
	require.NotEmpty(m.t, commands, "%s has no commands", m.name)
	return commands
}

// File is the block that is the file at path.
func (m *Manual) File(path string) string {
	m.t.Helper()
	for _, b := range m.blocks {
		if b.file == path {
			b.used = true
			return b.text
		}
	}
	require.FailNow(m.t, "there is no such file", "%s in %s", path, m.name)
	return ""
}

// tested is the sentence of a client's page with its version.
var tested = regexp.MustCompile(`Tested with ([0-9.]*[0-9])`)

// Tested is the version of the client that its page states.
func (m *Manual) Tested() string {
	m.t.Helper()
	version := tested.FindStringSubmatch(m.text)
	require.NotNil(m.t, version, "%s states no version", m.name)
	return version[1]
}

// All are the blocks of a language that is neither commands nor a file, such as
// promql.
func (m *Manual) All(language string) (texts []string) {
	m.t.Helper()
	for _, b := range m.blocks {
		if b.language == language && b.file == "" {
			texts = append(texts, b.text)
		}
	}
	require.NotEmpty(m.t, texts, "%s has no %s", m.name, language)
	return texts
}
