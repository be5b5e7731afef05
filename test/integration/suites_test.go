package integration

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

const (
	ofTheAPI      = "what clients send and get, of which nothing is systemd's"
	ofTheAccounts = "what the daemon knows of accounts; TestStandbyAfterRestarts has its restarts on both"
	ofItsPrograms = "the programs beside ours are those of Debian 13"
)

// oneSuite has every test that does not run on both, with the reason. These tests take turns with the suite. It has a test of
// units, system call filters, D-Bus or sandboxes only if one of the two lacks the
// feature under test.
var oneSuite = map[string]string{
	"TestAccountServer":        ofTheAPI,
	"TestAccountTruth":         ofTheAccounts,
	"TestIdleAccounts":         ofTheAccounts,
	"TestDisconnectInterrupts": ofTheAPI,
	"TestImagesInChat":         ofTheAPI,
	"TestImagesAddresses":      "the fetcher refuses addresses itself; TestImagesFirewall has what systemd refuses",
	"TestDependencyMCP":        "a server's own protocol; TestRequires has the start with the worker that requires it",
	"TestTemporalCadence":      "the times of our probe; TestTemporalCrashes has the restarts",
	"TestTemporalWorkflows":    "what Temporal keeps; TestTemporalCrashes has the restarts",
	"TestRunnerEnvironments":   "what installers do, and the record of it; TestRunnerEnvironment has the units on both",
	"TestBursts":               ofTheAPI,
	"TestCarriedOver":          ofTheAPI,
	"TestChat":                 ofTheAPI,
	"TestChatFeatures":         ofTheAPI,
	"TestClients":              ofTheAPI,
	"TestCodexCLI":             ofTheAPI,
	"TestCodexFaults":          ofTheAPI,
	"TestCompletions":          ofTheAPI,
	"TestGoClients":            ofTheAPI,
	"TestContract":             ofTheAPI,
	"TestFaultsInSDKs":         ofTheAPI,
	"TestHugeImages":           ofTheAPI,
	"TestModelFaults":          ofTheAPI,
	"TestParameters":           ofTheAPI,
	"TestPeakMemory":           ofTheAPI,
	"TestPython":               ofTheAPI,
	"TestResets":               ofTheAPI,
	"TestResponsesSDK":         ofTheAPI,
	"TestStopSequence":         ofTheAPI,
	"TestSessions":             ofTheAPI,
	"TestRotation":             ofTheAPI,
	"TestSummary":              ofTheAPI,
	"TestThreadReuse":          ofTheAPI,
	"TestToolNames":            ofTheAPI,

	"TestConsoleInABrowser": ofItsPrograms,
	"TestNeighbours":        ofItsPrograms,
	"TestTextfileDirectory": ofItsPrograms,
	"TestPrometheus":        ofItsPrograms,
	"TestAlerts":            ofItsPrograms,
	"TestReverseProxies":    ofItsPrograms,

	"TestAccountsCommands":    "commands of the daemon, of which nothing is systemd's",
	"TestRunnerManySessions":  "it measures the daemon, at the cost of many sessions",
	"TestSuites":              "a look at files",
	"TestGoClientPages":       "a look at files",
	"TestContainer":           "there is no systemd in a container",
	"TestRun":                 "`make run` takes the systemd of the machine where somebody develops",
	"TestReloadOnOldSystemd":  "systemd has reloads of its own since 253",
	"TestHeldBackOnDebian12":  "systemd's own delays grow since 254",
	"TestProxyRampOnDebian12": "systemd's own delays grow since 254",
	"TestProxyCrashLoop":      "a program that does not even run cannot wait in the place of systemd before 254",
}

// Each test runs on both suites, at night at least, or the table has the reason why it does not.
func TestSuites(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, path := range testFiles(t) {
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				assert.False(t, found[f.Name.Name], "there are two %s", f.Name.Name)
				found[f.Name.Name] = true
				assert.NotEqual(t, alone(f), parallel(f),
					"%s: it runs beside others, or it measures and calls bed.Alone", f.Name.Name)
				assert.NotEqual(t, oneSuite[f.Name.Name] != "", onBoth(f),
					"%s: pass it to bed.BothSuites or bed.EitherSuite, or name it in oneSuite with the reason", f.Name.Name)
			}
		}
	}
	for name := range oneSuite {
		assert.True(t, found[name], "there is no %s", name)
	}
}

// testFiles are those of all packages.
func testFiles(t *testing.T) []string {
	t.Helper()
	own, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	files, err := filepath.Glob("*/*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return append(files, own...)
}

func alone(f *ast.FuncDecl) bool { return names(f, "Alone", "Figures") }

// parallel reports whether a test runs beside others.
func parallel(f *ast.FuncDecl) bool { return names(f, "Parallel", "BothSuites", "EitherSuite") }

// names reports whether a test has one of the words.
func names(f *ast.FuncDecl, words ...string) (is bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		i, named := n.(*ast.Ident)
		is = is || named && slices.Contains(words, i.Name)
		return true
	})
	return is
}

// onBoth reports whether a test names both suites, or leaves that to BothSuites.
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
	return named["BothSuites"] || named["EitherSuite"] || named["Figures"] || named["BothSuitesInTurn"] ||
		(named["Newest"] || named[bed.Newest]) && (named["Oldest"] || named[bed.Oldest])
}
