// Package monitoring holds the alerts for Prometheus and the dashboard for Grafana; the tests with
// the real programs are in test/integration.
package monitoring

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the table in docs/alerts.md")

type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

// The table in docs/alerts.md lists the alerts of alerts.yaml.
func TestAlertsInTheDocs(t *testing.T) {
	data, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct{ Rules []rule }
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	var table strings.Builder
	table.WriteString("| alert | severity | when | means | do |\n|---|---|---|---|---|\n")
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			assert.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
			require.NotEmpty(t, r.Annotations["remedy"], r.Alert)
			require.NotEmpty(t, r.Annotations["description"], r.Alert)
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", r.Alert, r.Labels["severity"], when(r),
				cell(r.Annotations["description"]), cell(r.Annotations["remedy"]))
		}
	}
	const path, begin, end = "../../docs/alerts.md", "<!-- alerts -->\n", "<!-- end -->\n"
	doc, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(doc), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := before + begin + table.String() + end + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(doc), "run: go test ./packaging/monitoring -update")
}

func when(r rule) string {
	text := "`" + strings.ReplaceAll(strings.Join(strings.Fields(r.Expr), " "), "|", `\|`) + "`"
	if r.For != "" {
		text += " for " + r.For
	}
	return text
}

// cell replaces the templates of Prometheus by words.
func cell(text string) string {
	return strings.NewReplacer(
		"{{ $labels.worker }}", "NAME",
		"{{ $labels.account }}", "NAME",
		"{{ $labels.dependency }}", "NAME",
		"{{ if match `^codex-dependency@` $labels.name }}{{ $labels.name }}{{ else }}codex.target{{ end }}",
		"codex.target (of a dependency: UNIT)",
		"{{ $labels.name }}", "UNIT",
		"{{ reReplaceAll `[.][a-z]+$` `` $labels.name }}", "NAME",
		"{{ $value }}", "N",
		"{{ printf `%.0f` $value }}", "N",
		"|", `\|`,
	).Replace(text)
}
