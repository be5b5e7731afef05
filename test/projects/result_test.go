package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The ends of test programs are the same in two runs, whatever they took.
func TestResult(t *testing.T) {
	for output, want := range map[string]string{
		"..s [100%]\n1 failed, 144 passed, 2 skipped in 0.71s\n":                "1 failed, 144 passed, 2 skipped",
		"ok  \tgithub.com/a/b\t0.003s\nFAIL\tgithub.com/a/c\t0.1s\n":            "FAIL github.com/a/c, ok github.com/a/b",
		"ok  \tgithub.com/a/b\t(cached)\n?   \tgithub.com/a/d\t[no test files]": "ok github.com/a/b",
		"test result: ok. 12 passed; 0 failed; 1 ignored; finished in 0.2s\n":   "test result: ok. 12 passed; 0 failed",
		"  1256 passing (3s)\n  2 pending\n":                                    "1256 passing, 2 pending",
		"# tests 3\n# pass 3\n# fail 0\n":                                       "# fail 0, # pass 3",
		"Tests run: 5, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 1 s":   "Tests run: 5, Failures: 0, Errors: 0",
		"# TOTAL: 9\n# PASS:  9\n":                                              "# PASS: 9, # TOTAL: 9",
		"no such program":                                                       "",
	} {
		assert.Equal(t, want, outcome{output: output}.result())
	}
}

func TestTable(t *testing.T) {
	ended := func(status int, seconds float64, output string) outcome {
		return outcome{status, time.Duration(seconds * float64(time.Second)), output}
	}
	same := ended(0, 2, "3 passed")
	text := table{
		{
			project: projects[0], host: [2]outcome{same, same}, start: ended(0, 0.5, ""),
			sessions: [2]outcome{ended(0, 9, "3 passed"), ended(0, 3, "3 passed")},
		},
		{project: projects[1], host: [2]outcome{same, same}, sessions: [2]outcome{same, ended(1, 2, "1 failed")}},
		{project: projects[1], offline: true, host: [2]outcome{same, same}, sessions: [2]outcome{same, same}},
		{project: projects[1], offline: true, host: [2]outcome{same, same}, sessions: [2]outcome{same, ended(1, 2, "1 failed")}},
		{project: projects[1], offline: true, host: [2]outcome{same, same}, hostOffline: ended(1, 2, "1 failed"),
			sessions: [2]outcome{same, ended(1, 2, "1 failed")}},
		{project: projects[2], fault: "cannot clone"},
		{project: projects[3], host: [2]outcome{{status: -1}}, sessions: [2]outcome{{status: -1}, {status: -1}}},
	}.String()
	assert.Contains(t, text, "| pallets/click | `pytest -q` | yes | 0: 3 passed | 9.0 s | 3.0 s | 0.5 s | 2.0 s | 1.5 |\n")
	assert.Contains(t, text, "| pallets/flask | `pytest -q` | no | 0: 3 passed; host 0: 3 passed |", "the second session differs")
	assert.Contains(t, text, "| cannot clone |  |  |  |  |  |\n")
	assert.Contains(t, text, "| pallets/flask | `pytest -q` | yes, not without the network | 0: 3 passed |")
	assert.True(t, strings.HasSuffix(text, "\n4 of 7 worked at once\n2 of 7 worked without the network in the second session\n"+
		"second session beside the second command without the runner: 1.5 times at the median, 1.5 at worst\n"), text)
}

func TestChosen(t *testing.T) {
	all, err := chosen([]string{"fd", "click"})
	require.NoError(t, err)
	assert.Equal(t, []string{"fd", "click"}, []string{all[0].name(), all[1].name()})
	_, err = chosen([]string{"clik"})
	assert.EqualError(t, err, "there is no project clik: the names are those of test/projects/list.go")
	assert.Len(t, projects, 20)
}
