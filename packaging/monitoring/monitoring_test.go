// Package monitoring holds the alerts for Prometheus and the dashboard for Grafana; the tests with
// the real programs are in test/integration.
package monitoring

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the tables in the documents")

type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

// A document has a table of the alerts of each program.
func TestAlertsInTheDocs(t *testing.T) {
	for file, doc := range map[string]string{"alerts.yaml": "alerts.md", "runner-alerts.yaml": "runner-operations.md"} {
		inTheDocs(t, alerts(t, file), "../../docs/"+doc)
	}
}

// alerts are the rules of a file.
func alerts(t *testing.T, name string) (all []rule) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	var file struct {
		Groups []struct{ Rules []rule }
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func inTheDocs(t *testing.T, alerts []rule, path string) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| alert | severity | when | means | do |\n|---|---|---|---|---|\n")
	for _, r := range alerts {
		assert.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["remedy"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", r.Alert, r.Labels["severity"], when(r),
			cell(r.Annotations["description"]), cell(r.Annotations["remedy"]))
	}
	const begin, end = "<!-- alerts -->\n", "<!-- end -->\n"
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

// Likewise those of remotes, which the machine of the test with Prometheus has not: docs/metrics.md has them.
func TestRemoteMetricsExist(t *testing.T) {
	doc, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		plain := strings.ReplaceAll(string(text), `\"`, `"`) // of JSON
		names := regexp.MustCompile(`codex_remote_[a-z_]+`).FindAllString(plain, -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			assert.Contains(t, string(doc), "\n| `"+name+"` | ", file)
		}
		for _, s := range regexp.MustCompile(`(codex_remote_[a-z_]+)\{([^}]*)\}`).FindAllStringSubmatch(plain, -1) {
			row := regexp.MustCompile("(?m)^\\| `" + s[1] + "` .*$").FindString(string(doc))
			for _, label := range matcher.FindAllStringSubmatch(s[2], -1) {
				for value := range strings.SplitSeq(label[2], "|") {
					assert.True(t, label[1] == "instance" || strings.Contains(row, "`"+value+"`"),
						"%s: %s has no %s=%q", file, s[1], label[1], value)
				}
			}
		}
	}
}

var (
	metric   = regexp.MustCompile(`codex_runner_[a-z_]+`)
	selected = regexp.MustCompile(`(codex_runner_[a-z_]+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`([a-z_]+)=~?"([^"]*)"`)
)

// The alerts and the dashboard of codex-runner ask for metrics and values of labels that docs/runner-operations.md has,
// which a test compares with those of a daemon.
func TestRunnerMetricsExist(t *testing.T) {
	doc, err := os.ReadFile("../../docs/runner-operations.md")
	require.NoError(t, err)
	row := func(name string) string {
		for _, suffix := range []string{"", "_bucket"} {
			at := regexp.MustCompile("(?m)^\\| `" + strings.TrimSuffix(name, suffix) + "` .*$")
			if line := at.FindString(string(doc)); line != "" {
				return line
			}
		}
		return ""
	}
	for _, file := range []string{"runner-alerts.yaml", "runner-dashboard.json"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		plain := strings.ReplaceAll(string(text), `\"`, `"`) // of JSON
		for _, name := range metric.FindAllString(plain, -1) {
			assert.NotEmpty(t, row(name), "%s: there is no metric %s", file, name)
		}
		for _, s := range selected.FindAllStringSubmatch(plain, -1) {
			for _, label := range matcher.FindAllStringSubmatch(s[2], -1) {
				if label[1] == "instance" {
					continue
				}
				for value := range strings.SplitSeq(label[2], "|") {
					assert.Contains(t, row(s[1]), "`"+value+"`", "%s: %s has no %s=%q", file, s[1], label[1], value)
				}
			}
		}
	}
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
		"{{ $labels.remote }}", "NAME",
		"{{ if match `^codex-(dependency|remote)@` $labels.name }}{{ $labels.name }}{{ else }}codex.target{{ end }}",
		"codex.target (of a dependency or a remote: UNIT)",
		"{{ $labels.name }}", "UNIT",
		"{{ reReplaceAll `[.][a-z]+$` `` $labels.name }}", "NAME",
		"{{ $value }}", "N",
		"{{ $value | humanizePercentage }}", "N %",
		"{{ printf `%.0f` $value }}", "N",
		"|", `\|`,
	).Replace(text)
}
