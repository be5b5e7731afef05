package integration

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The newest systemd of the tests, 257 of Debian 13, and the oldest supported one, 252
// of Debian 12.
const newest, oldest = "trixie", "bookworm"

// bothSuites runs a test on both, at the same time, and beside other tests.
func bothSuites(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	t.Parallel()
	for _, suite := range []string{newest, oldest} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			test(t, suite)
		})
	}
}

// bothSuitesInTurn is bothSuites for a test that measures times: nothing runs beside it.
func bothSuitesInTurn(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	for _, suite := range []string{newest, oldest} {
		t.Run(suite, func(t *testing.T) { test(t, suite) })
	}
}

const (
	ofTheAPI      = "what clients send and get, of which nothing is systemd's"
	ofItsPrograms = "the programs beside ours are those of Debian 13"
)

// oneSuite has every test that does not run on both, with the reason. It has a test of
// units, system call filters, D-Bus or sandboxes only if one of the two lacks the
// feature under test.
var oneSuite = map[string]string{
	"TestBursts":       ofTheAPI,
	"TestCarriedOver":  ofTheAPI,
	"TestChat":         ofTheAPI,
	"TestChatFeatures": ofTheAPI,
	"TestClients":      ofTheAPI,
	"TestCodexCLI":     ofTheAPI,
	"TestCodexFaults":  ofTheAPI,
	"TestCompletions":  ofTheAPI,
	"TestGoClients":    ofTheAPI,
	"TestContract":     ofTheAPI,
	"TestFaultsInSDKs": ofTheAPI,
	"TestHugeImages":   ofTheAPI,
	"TestModelFaults":  ofTheAPI,
	"TestParameters":   ofTheAPI,
	"TestPeakMemory":   ofTheAPI,
	"TestPython":       ofTheAPI,
	"TestResets":       ofTheAPI,
	"TestResponsesSDK": ofTheAPI,
	"TestStopSequence": ofTheAPI,
	"TestSessions":     ofTheAPI,
	"TestRotation":     ofTheAPI,
	"TestSummary":      ofTheAPI,
	"TestThreadReuse":  ofTheAPI,
	"TestToolNames":    ofTheAPI,

	"TestNeighbours":        ofItsPrograms,
	"TestTextfileDirectory": ofItsPrograms,
	"TestPrometheus":        ofItsPrograms,
	"TestAlerts":            ofItsPrograms,
	"TestReverseProxies":    ofItsPrograms,

	"TestAccountsCommands":    "commands of the daemon, of which nothing is systemd's",
	"TestRunnerManySessions":  "it measures the daemon, at the cost of many sessions",
	"TestSuites":              "a look at this package's files",
	"TestGoClientPages":       "a look at files",
	"TestContainer":           "there is no systemd in a container",
	"TestRun":                 "`make run` takes the systemd of the machine where somebody develops",
	"TestReloadOnOldSystemd":  "systemd has reloads of its own since 253",
	"TestHeldBackOnDebian12":  "systemd's own delays grow since 254",
	"TestProxyRampOnDebian12": "systemd's own delays grow since 254",
	"TestProxyCrashLoop":      "a program that does not even run cannot wait in the place of systemd before 254",
}

// Each test runs on both suites, or the table has the reason why it does not.
func TestSuites(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	found, measuring := map[string]bool{}, measuring(t)
	for _, path := range files {
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				found[f.Name.Name] = true
				assert.Equal(t, measuring.MatchString(f.Name.Name), !parallel(f),
					"%s: what runs alone is in MEASURING of the Makefile, and only that", f.Name.Name)
				assert.NotEqual(t, oneSuite[f.Name.Name] != "", onBoth(f),
					"%s: pass it to bothSuites, or name it in oneSuite with the reason", f.Name.Name)
			}
		}
	}
	for name := range oneSuite {
		assert.True(t, found[name], "there is no %s", name)
	}
}

// measuring is the Makefile's pattern of the tests that run alone.
func measuring(t *testing.T) *regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^MEASURING += (.+)$`).FindSubmatch(text)
	require.NotNil(t, found)
	return regexp.MustCompile(strings.ReplaceAll(string(found[1]), "$$", "$"))
}

// parallel reports whether a test runs beside others.
func parallel(f *ast.FuncDecl) (is bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		i, named := n.(*ast.Ident)
		is = is || named && (i.Name == "Parallel" || i.Name == "bothSuites")
		return true
	})
	return is
}

// onBoth reports whether a test names both suites, or leaves that to bothSuites.
func onBoth(f *ast.FuncDecl) bool {
	named := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			named[n.Name] = true
		case *ast.BasicLit:
			named[strings.Trim(n.Value, `"`)] = true
		}
		return true
	})
	return named["bothSuites"] || named["bothSuitesInTurn"] || (named["newest"] || named[newest]) &&
		(named["oldest"] || named[oldest])
}
