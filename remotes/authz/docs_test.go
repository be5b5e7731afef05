package authz

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of requests into docs/remotes.md")

const (
	document   = "../../docs/remotes.md"
	tableBegin = "<!-- requests: go test ./remotes/authz -run TestDocument -update -->\n"
	tableEnd   = "<!-- /requests -->\n"
)

// table is the table of requests of docs/remotes.md.
func table() string {
	var all, owner []string
	byReason := map[string][]string{}
	for _, m := range Methods() {
		name := "`" + m.Name + "`"
		switch {
		case m.Viewers:
			all = append(all, name)
		case m.Owners:
			owner = append(owner, name)
		default:
			byReason[m.Refused] = append(byReason[m.Refused], name)
		}
	}
	var b strings.Builder
	fmt.Fprint(&b, "| requests | |\n|---|---|\n")
	fmt.Fprintf(&b, "| %s | all who are attached |\n", strings.Join(all, " "))
	fmt.Fprintf(&b, "| %s | owners |\n", strings.Join(owner, " "))
	var reasons []string
	for reason := range byReason {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	for _, reason := range reasons {
		fmt.Fprintf(&b, "| %s | refused: %s |\n", strings.Join(byReason[reason], " "), reason)
	}
	return b.String()
}

// The document has the decision on every request.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile(document)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(b), tableBegin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, tableEnd)
	require.True(t, found)
	want := before + tableBegin + table() + tableEnd + after
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(b), "run go test ./remotes/authz -run TestDocument -update")
}
