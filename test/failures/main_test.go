package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSummarize(t *testing.T) {
	var events strings.Builder
	event := func(action, name, output string) {
		line, err := json.Marshal(map[string]string{"Action": action, "Package": "p", "Test": name, "Output": output})
		require.NoError(t, err)
		events.Write(append(line, '\n'))
	}
	event("output", "TestGood", "    good_test.go:1: fine\n")
	event("pass", "TestGood", "")
	for _, line := range []string{
		"=== RUN   TestBad/one\n", "    bad_test.go:7: \n", "        \tError Trace:\t/p/bad_test.go:7\n",
		"        \tError:      \tNot equal: \n", "        \t            \texpected: 1\n", "        \tTest:       \tTestBad/one\n",
		"    boot.go:34: the machine used 1.2 s of CPU\n", "--- FAIL: TestBad/one (0.00s)\n",
	} {
		event("output", "TestBad/one", line)
	}
	event("fail", "TestBad/one", "")
	event("fail", "TestBad", "")
	event("output", "", "FAIL\tp\t0.1s\n")
	event("fail", "", "")
	var out strings.Builder
	summarize(&out, strings.NewReader(events.String()+"no event\n"))
	assert.Equal(t, `p TestBad/one
    bad_test.go:7: 
        	Error Trace:	/p/bad_test.go:7
        	Error:      	Not equal: 
        	            	expected: 1
`, out.String())
}
