package journal

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the catalogue")

const root = "../.."

func TestEventsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range allEvents() {
		assert.Regexp(t, `^[0-9a-f]{32}$`, e.ID)
		assert.Regexp(t, `^[a-z]+(-[a-z]+)*$`, e.Name)
		for _, key := range []string{e.ID, e.Name, "message " + e.Message} {
			assert.False(t, seen[key], key)
			seen[key] = true
		}
		assert.NotEmpty(t, e.Subject)
		assert.NotEmpty(t, e.Help, e.Name)
		for line := range strings.Lines(e.Help) {
			assert.LessOrEqual(t, len(line), 96, e.Name)
		}
	}
}

// Every message of the program is an event, and every event has a message.
func TestEventsAreWhatTheProgramLogs(t *testing.T) {
	known := map[string]bool{}
	for _, e := range allEvents() {
		known[e.Message] = true
	}
	literals := map[string]bool{"": true}
	for _, file := range sources(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				literals[text] = true
			}
			if message, ok := logged(n); ok {
				assert.True(t, known[message], "%s logs %q, which is no event", file, message)
			}
			return true
		})
	}
	for message := range known {
		assert.True(t, literals[message], "nothing logs %q", message)
	}
}

func sources(t *testing.T) (files []string) {
	t.Helper()
	for _, dir := range []string{"cmd", "codex", "daemon", "dependencies", "internal", "notify", "probes", "proxy", "remotes",
		"runner", "units", "workers"} {
		add := func(path string, d fs.DirEntry, err error) error {
			isTest := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test")
			if !d.IsDir() && strings.HasSuffix(path, ".go") && !isTest {
				files = append(files, path)
			}
			return err
		}
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), add))
	}
	require.NotEmpty(t, files)
	return files
}

// logged is the message of a call of a logger's method.
func logged(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	at := map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "Log": 2, "LogAttrs": 2}
	n0, isLog := at[methodName(method, ok)]
	if !isLog || len(call.Args) <= n0 {
		return "", false
	}
	lit, ok := call.Args[n0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

func methodName(method *ast.SelectorExpr, ok bool) string {
	if !ok {
		return ""
	}
	return method.Sel.Name
}

// catalogue is the explanation of events for `journalctl -x`, in the format of
// https://systemd.io/CATALOG/. program has a manual page.
func catalogue(program string, events []event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "-- %s\nSubject: %s\nDefined-By: %s\nDocumentation: man:%s(1)\n\n%s\n\n",
			e.ID, e.Subject, program, program, e.Help)
	}
	return b.String()
}

// The shipped catalogues are current, and name only fields that the programs send. Where both packages are installed,
// systemd reads the shared events twice.
func TestCatalogue(t *testing.T) {
	for program, events := range map[string][]event{Proxy: slices.Concat(proxyEvents(), remoteEvents()), Runner: runnerEvents()} {
		checkCatalogue(t, program, catalogue(program, slices.Concat(events, sharedEvents())))
	}
}

func checkCatalogue(t *testing.T, program, written string) {
	t.Helper()
	path := filepath.Join(root, "packaging/journal", program+".catalog")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(written), 0o644))
	}
	shipped, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, written, string(shipped), "if this is meant: go test ./internal/journal -run TestCatalogue "+
		"-update")
	text := ""
	for _, file := range sources(t) {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		text += string(b)
	}
	for _, m := range regexp.MustCompile(`@CODEX_([A-Z_]+)@`).FindAllStringSubmatch(written, -1) {
		assert.Contains(t, text, `"`+strings.ToLower(m[1])+`"`, "no attribute makes CODEX_%s", m[1])
	}
}

func TestEventsInTheDocs(t *testing.T) {
	const begin, end = "-run TestEventsInTheDocs -update -->\n", "<!-- end of events -->"
	path := filepath.Join(root, "docs/journal.md")
	doc, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(doc), begin)
	require.True(t, found)
	shown, tail, found := strings.Cut(rest, end)
	require.True(t, found)
	table := "| `CODEX_EVENT` | `MESSAGE_ID` | |\n|---|---|---|\n"
	for _, e := range allEvents() {
		table += "| `" + e.Name + "` | `" + e.ID + "` | " + e.Subject + " |\n"
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644))
		return
	}
	assert.Equal(t, table, shown)
}
