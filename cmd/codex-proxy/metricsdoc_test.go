package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/auth"
)

var update = flag.Bool("update", false, "write the tables of metrics anew")

const metricsDoc = "../../docs/metrics.md"

// family is what an exposition says of all metrics of one name.
type family struct {
	name, kind, help string
	labels           []string
	values           map[string][]string
}

var (
	sampleLine = regexp.MustCompile(`^([a-z_]+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// families reads the text format, without what the client library brings along.
func families(t *testing.T, exposition string) map[string]*family {
	t.Helper()
	all := map[string]*family{}
	var f *family
	for line := range strings.Lines(exposition) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			name, help, _ := strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
			f = &family{name: name, help: help, values: map[string][]string{}}
			if strings.HasPrefix(name, "codex_") {
				all[name] = f
			}
		case strings.HasPrefix(line, "# TYPE "):
			f.kind = line[strings.LastIndex(line, " ")+1:]
		default:
			if m := sampleLine.FindStringSubmatch(line); m != nil {
				f.add(m[2])
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

func (f *family) add(labels string) {
	for _, pair := range labelPair.FindAllStringSubmatch(labels, -1) {
		label, value := pair[1], pair[2]
		if label == "le" {
			continue
		}
		if !slices.Contains(f.labels, label) {
			f.labels = append(f.labels, label)
		}
		if !slices.Contains(f.values[label], value) {
			f.values[label] = append(f.values[label], value)
		}
	}
}

// described are the labels whose values depend on the installation or on what
// happens; those of all others are listed.
var described = map[string]string{
	"route":      "a path in api.md, or `other`",
	"method":     "the method, or `other`",
	"status":     "the HTTP status",
	"code":       "the error's code",
	"worker":     "the worker's name",
	"account":    "the name of the account's worker",
	"key":        "the API key's name",
	"model":      "a model, an alias or a pattern of aliases that is served",
	"version":    "the version",
	"dependency": "the dependency's name",
	"window":     "the limit's length, as `5h`",
	"limit":      quoted(auth.LimitNames),
}

func quoted(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }

// table is Markdown; early are the families that are there before anything has
// happened.
func table(all, early map[string]*family) string {
	var b strings.Builder
	b.WriteString("| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range slices.SortedFunc(maps.Values(all), func(a, b *family) int { return cmp.Compare(a.name, b.name) }) {
		var labels []string
		for _, label := range f.labels {
			values := described[label]
			if values == "" {
				values = quoted(f.values[label])
			}
			labels = append(labels, "`"+label+"`: "+values)
		}
		help := f.help
		if early[f.name] == nil && !strings.Contains(help, "absent") {
			help += " Absent until there is one."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, strings.Join(labels, "; "), help)
	}
	return b.String()
}

// The tables in docs/metrics.md are those of a daemon that runs: they are its
// golden file, too.
func TestMetricsInTheDocs(t *testing.T) {
	state := t.TempDir()
	file := filepath.Join(state, "keys.cache") // as a database has had them
	added := try(t, "keys", "add", "alice", "--file", file, "--requests-per-minute=1", "--concurrent=2", "--tokens-per-minute=9", "--tokens-per-day=99", "--models=demo")
	require.Zero(t, added.status)
	t.Setenv("INVOCATION_ID", "1")
	t.Setenv("STATE_DIRECTORY", state)
	s := servingUnder(t, "60000000", `database.url="postgres://codex@127.0.0.1/codex"`,
		`traces.endpoint="http://127.0.0.1:4318"`,
		`requires=["temporal"]`)
	scrape := func() map[string]*family {
		resp, err := http.Get(s.url + "/metrics")
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return families(t, string(text))
	}
	early := scrape()
	s.worker(t, &appservertest.Server{Faults: map[string]appservertest.Fault{
		"account/read":            answer(`{"account":{"type":"chatgpt","email":"a@example.com","planType":"pro"},"requiresOpenaiAuth":true}`),
		"account/rateLimits/read": answer(`{"rateLimits":{"primary":{"usedPercent":42,"windowDurationMins":300,"resetsAt":4102444800}}}`),
	}})
	s.note(t, "READY=1")
	require.Eventually(t, func() bool { return scrape()["codex_worker_rate_limit_used_ratio"] != nil }, bound, 10*time.Millisecond)
	for range 2 { // the second is refused
		s.chatAs(t, strings.TrimSpace(added.stdout))
		s.line(t, `"msg":"request"`)
	}
	all := scrape()
	inTheDocs(t, "metrics", table(all, early))
	assertEveryName(t, all)

	text, err := os.ReadFile(filepath.Join(s.dir, "codex-proxy.prom"))
	require.NoError(t, err)
	ofFile := families(t, string(text))
	inTheDocs(t, "textfile", table(ofFile, ofFile))
}

// Nobody has to be told that there is no systemd where it did not start the service.
func TestNoBusMetricWithoutSystemd(t *testing.T) {
	t.Setenv("INVOCATION_ID", "")
	s := serving(t)
	resp, err := http.Get(s.url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "codex_bus_up")
	assert.Contains(t, string(text), "codex_bus_reconnects_total 0\n")
}

func answer(result string) appservertest.Fault {
	return func(_ context.Context, p *appservertest.Peer, id json.RawMessage) bool {
		p.Reply(id, json.RawMessage(result))
		return true
	}
}

func (s *service) chatAs(t *testing.T, key string) {
	t.Helper()
	body := `{"model":"demo","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
}

var metricName = regexp.MustCompile(`"(codex_[a-z0-9_]+)"`)

// assertEveryName: what no request of the test moves would be missing.
func assertEveryName(t *testing.T, all map[string]*family) {
	t.Helper()
	var names int
	for _, pattern := range []string{"../../*/*metrics.go", "../../*/*/*metrics.go", "../../*/*/*/*metrics.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasPrefix(file, "../../runner/") || file == "../../remotes/remotewatch/metrics.go" ||
				file == "../../broker/brokerwatch/metrics.go" {
				continue // of codex-runner, of remotes and of brokers, which have tests of their own
			}
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range metricName.FindAllStringSubmatch(string(source), -1) {
				assert.Contains(t, all, m[1], "%s: move it in this test", file)
				names++
			}
		}
	}
	assert.Greater(t, names, len(all)/2)
}

// inTheDocs compares a table with the one between two comments of the document.
func inTheDocs(t *testing.T, name, want string) {
	t.Helper()
	text, err := os.ReadFile(metricsDoc)
	require.NoError(t, err)
	parts := regexp.MustCompile(`(?s)^(.*<!-- ` + name + `: [^\n]* -->\n)(.*?)(<!-- end of ` + name + ` -->\n.*)$`).FindSubmatch(text)
	require.NotNil(t, parts, name)
	if *update {
		require.NoError(t, os.WriteFile(metricsDoc, []byte(string(parts[1])+want+string(parts[3])), 0o644))
		return
	}
	assert.Equal(t, want, string(parts[2]), "if this is meant: go test ./cmd/codex-proxy -run TestMetricsInTheDocs -update")
}
