package journal

import (
	"flag"
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

var update = flag.Bool("update", false, "write the table of docs/journal.md")

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
	for _, dir := range []string{"broker", "cmd", "codex", "console", "daemon", "dependencies", "internal", "notify", "probes", "proxy", "remotes",
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

// explanation is an entry of a catalogue, as https://systemd.io/CATALOG/ has it.
type explanation struct{ id, subject, head, help string }

func catalogue(t *testing.T, program string) (entries []explanation) {
	t.Helper()
	shipped, err := os.ReadFile(filepath.Join(root, "packaging/journal", program+".catalog"))
	require.NoError(t, err)
	for _, text := range strings.Split(string(shipped), "-- ")[1:] {
		head, help, found := strings.Cut(text, "\n\n")
		require.True(t, found, text)
		id, head, _ := strings.Cut(head, "\n")
		first, head, _ := strings.Cut(head, "\n")
		subject, found := strings.CutPrefix(first, "Subject: ")
		require.True(t, found, id)
		entries = append(entries, explanation{id, subject, head, strings.TrimSpace(help)})
	}
	return entries
}

// The catalogues explain each event for `journalctl -x`, in the order of the code, and name only fields that the programs
// send. Where both packages are installed, systemd reads the shared events twice.
func TestCatalogue(t *testing.T) {
	text := ""
	for _, file := range sources(t) {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		text += string(b)
	}
	field := regexp.MustCompile(`@CODEX_([A-Z_]+)@`)
	for program, events := range map[string][]event{
		Proxy:  slices.Concat(proxyEvents, remoteEvents, sharedEvents),
		Runner: slices.Concat(runnerEvents, sharedEvents),
	} {
		var want, got []string
		for _, e := range events {
			want = append(want, e.ID)
		}
		for _, e := range catalogue(t, program) {
			got = append(got, e.id)
			assert.Equal(t, "Defined-By: "+program+"\nDocumentation: man:"+program+"(1)", e.head, e.id)
			assert.NotEmpty(t, e.subject, e.id)
			assert.NotEmpty(t, e.help, e.id)
			for line := range strings.Lines(e.help) {
				assert.LessOrEqual(t, len(line), 96, e.id)
			}
			for _, m := range field.FindAllStringSubmatch(e.help, -1) {
				if !strings.Contains(text, `"`+strings.ToLower(m[1])+`"`) {
					assert.Fail(t, "no attribute makes CODEX_"+m[1], e.id)
				}
			}
		}
		assert.Equal(t, want, got, "an entry for each event, in their order: packaging/journal/%s.catalog", program)
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
	subjects := map[string]string{}
	for _, e := range slices.Concat(catalogue(t, Proxy), catalogue(t, Runner)) {
		subjects[e.id] = e.subject
	}
	for _, e := range allEvents() {
		table += "| `" + e.Name + "` | `" + e.ID + "` | " + subjects[e.ID] + " |\n"
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+begin+table+end+tail), 0o644))
		return
	}
	assert.Equal(t, table, shown)
}
