package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of metrics anew")

const operations = "../../docs/runner-operations.md"

// The table in docs/runner-operations.md has the metrics of a daemon, and promtool would accept them.
func TestMetricsInTheDocs(t *testing.T) {
	d := newDaemon(t)
	problems, err := testutil.GatherAndLint(d.metrics)
	require.NoError(t, err)
	assert.Empty(t, problems)
	families, err := d.metrics.Gather()
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), labels(f), f.GetHelp())
	}
	text, err := os.ReadFile(operations)
	require.NoError(t, err)
	parts := regexp.MustCompile(`(?s)^(.*<!-- metrics: [^\n]* -->\n)(.*?)(<!-- end of metrics -->\n.*)$`).FindSubmatch(text)
	require.NotNil(t, parts)
	if *update {
		require.NoError(t, os.WriteFile(operations, []byte(string(parts[1])+table.String()+string(parts[3])), 0o644))
		return
	}
	assert.Equal(t, table.String(), string(parts[2]), "if this is meant: go test ./cmd/codex-runner -run TestMetricsInTheDocs -update")
}

// labels are the names and values of the labels of a family.
func labels(f *dto.MetricFamily) string {
	var names []string
	values := map[string][]string{}
	for _, m := range f.GetMetric() {
		for _, label := range m.GetLabel() {
			if !slices.Contains(names, label.GetName()) {
				names = append(names, label.GetName())
			}
			values[label.GetName()] = append(values[label.GetName()], "`"+label.GetValue()+"`")
		}
	}
	for i, name := range names {
		text := strings.Join(values[name], ", ")
		if name == "version" {
			text = "the version"
		}
		names[i] = "`" + name + "`: " + text
	}
	return strings.Join(names, "; ")
}
