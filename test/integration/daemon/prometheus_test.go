package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
)

const (
	prometheusURL = "http://127.0.0.1:9090"
	monitoring    = "../../../packaging/monitoring"
	defaults      = "/etc/default/prometheus"
	nodeDefaults  = "/etc/default/prometheus-node-exporter"
)

// promServer is a real Prometheus.
type promServer struct{ *bed.Bed }

// get is one answer of its HTTP API.
func (p promServer) get(path string, params url.Values, into any) error {
	res, err := p.HTTP.Get(prometheusURL + "/api/v1/" + path + "?" + params.Encode())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", res.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// vectorElement is one element of a vector; its value is NaN for a histogram.
type vectorElement struct {
	Metric map[string]string
	Value  [2]any
}

func (p promServer) query(promql string) (vector []vectorElement, err error) {
	var data struct {
		ResultType string
		Result     []vectorElement
	}
	err = p.get("query", url.Values{"query": {promql}}, &data)
	return data.Result, err
}

// until repeats a query until its answer is not empty: a comparison keeps only the
// elements for which it is true.
func (p promServer) until(promql string) []vectorElement {
	p.T.Helper()
	var last []vectorElement
	await.True(p.T, func() bool {
		var err error
		last, err = p.query(promql)
		return err == nil && len(last) > 0
	}, bed.Bound, "%s never had an answer", promql)
	return last
}

// TestPrometheus runs Debian's own Prometheus and node exporter, with the configuration
// in docs/metrics.md, beside the service through the life of a worker.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	b := bed.NewOn(t, bed.Neighbours(), bed.RealWorker, toCollector) // the metrics of traces, too
	p, doc := promServer{b}, manual.Open(t, "docs/metrics.md")
	commands := doc.Commands()
	require.Len(t, commands, 2)
	b.Start()
	b.MustRun(t, "sh", "-ec", commands[0])
	quick := strings.ReplaceAll(doc.File("/etc/prometheus/prometheus.yml"), ": 15s", ": 1s")
	require.NotContains(t, quick, "15s")
	require.NoError(t, b.WriteFile("/etc/prometheus/prometheus.yml", []byte(quick), 0o644))
	require.NoError(t, b.WriteFile(nodeDefaults, []byte(doc.File(nodeDefaults)), 0o644))
	b.MustRun(t, "promtool", "check", "config", "/etc/prometheus/prometheus.yml")
	b.MustRun(t, "systemctl", "start", "prometheus", "prometheus-node-exporter")

	p.until(`up{job="codex-proxy"} == 1`)
	p.until(`up{job="node"} == 1`)
	p.until(`codex_ready == 1`)
	assert.Equal(t, "default", p.until(`codex_worker_state{state="ready"} == 1`)[0].Metric["worker"])
	p.until(`node_systemd_unit_state{name="codex-worker@default.service",state="active"} == 1`)
	p.until(`codex_textfile_ready == 1`)
	measureDependency(b, p)

	t.Run("promtool takes the metrics", func(t *testing.T) { lint(b, t) })
	t.Run("without the key", func(t *testing.T) { guarded(b, t) })

	key, err := b.ReadFile("/etc/prometheus/codex-proxy.key")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, scrape(b, t, strings.TrimSpace(string(key)), ""))
	b.MustRun(t, "codex-proxy", "keys", "revoke", "prometheus")
	b.MustRun(t, "codex-proxy", "keys", "open") // from here on requests need no key
	for n := range 3 {
		status, _, body := b.Chat(true, "measured [[text hello]]")
		require.Equal(t, http.StatusOK, status, body)
		p.until(fmt.Sprintf(`sum(codex_http_requests_total{route="/v1/chat/completions",status="200"}) == %d`, n+1))
	}
	p.until(`sum(increase(codex_http_requests_total{route="/v1/chat/completions"}[1m])) > 0`)
	p.until(`histogram_quantile(0.99, sum by (le) (rate(codex_http_first_byte_seconds_bucket{route="/v1/chat/completions"}[1m]))) > 0`)
	p.until(`codex_tokens_total{kind="input"} > 0`)
	p.until(`codex_stream_ends_total{cause="finished"} == 3`)

	b.KillCodex()
	b.Until("ready again", bed.Ready)
	p.until(`codex_worker_restarts_total{worker="default"} == 1`)
	p.until(`codex_textfile_worker_restarts_total{worker="default"} == 1`)
	p.until(`node_systemd_service_restart_total{name="codex-worker@default.service"} == 1`)
	p.until(`sum(codex_readiness_flips_total{ready="false"}) >= 1`)
	p.until(`codex_not_ready_seconds_total > 0`)
	p.until(`codex_worker_latency_ms > 0`)

	// With a stopped worker the service runs and is not ready.
	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	p.until(`codex_ready == 0`)
	p.until(`codex_worker_state{state="stopped"} == 1`)
	p.until(`codex_textfile_ready == 0`)
	p.until(`node_systemd_unit_state{name="codex-worker@default.service",state="inactive"} == 1`)
	b.MustRun(t, "systemctl", "start", bed.WorkerUnit)
	p.until(`codex_ready == 1`)

	t.Run("questions", func(t *testing.T) { p.questions(t, doc) })
	t.Run("alerts", func(t *testing.T) { p.alerts(t) })
	t.Run("dashboard", func(t *testing.T) { p.dashboard(t) })

	require.NoError(t, b.WriteFile(defaults, []byte(doc.File(defaults)), 0o644))
	b.MustRun(t, "systemctl", "restart", "prometheus")
	p.until(`histogram_count(codex_http_first_byte_seconds{route="/v1/chat/completions"}) >= 3`)
	p.until(`histogram_quantile(0.99, codex_http_first_byte_seconds{route="/v1/chat/completions"}) > 0`)

	// A killed service leaves the file, and its age shows it.
	b.MustRun(t, "systemctl", "mask", "--runtime", bed.ProxyUnit)
	b.MustRun(t, "systemctl", "kill", "--signal=SIGKILL", bed.ProxyUnit)
	p.until(`up{job="codex-proxy"} == 0`)
	p.until(`time() - codex_textfile_written_timestamp_seconds > 2`)
	p.until(`codex_textfile_ready == 1`) // so the age of the file has to be checked
	b.MustRun(t, "systemctl", "unmask", "--runtime", bed.ProxyUnit)
	dead := time.Now()
	b.MustRun(t, "sh", "-ec", commands[1])
	p.until(`up{job="codex-proxy"} == 1`)
	p.until(fmt.Sprintf(`codex_textfile_written_timestamp_seconds > %d`, dead.UnixMilli()/1000))
}

// measureDependency leaves a dependency that has been killed once, and is ready.
func measureDependency(b *bed.Bed, p promServer) {
	require.NoError(b.T, b.WriteFile(bed.WebFile, []byte(bed.Web), 0o644))
	b.MustRun(b.T, "systemctl", "daemon-reload")
	b.MustRun(b.T, "systemctl", "start", bed.WebUnit)
	b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit)
	p.until(`codex_dependency_ready{dependency="web"} == 1`)
	b.MustRun(b.T, "systemctl", "kill", "--kill-whom=main", "--signal=SIGKILL", bed.WebUnit)
	p.until(`codex_dependency_restarts_total{dependency="web"} == 1`)
	p.until(`codex_textfile_dependency_restarts_total{dependency="web"} == 1`)
	p.until(`codex_dependency_state{dependency="web",state="ready"} == 1`)
	p.until(`codex_dependency_ready_since_seconds{dependency="web"} > 0`)
}

// tolerated are complaints about names and forms that older dashboards need.
var tolerated = regexp.MustCompile(`^codex_worker_(latency|backoff)_ms (use base unit "seconds" instead of "milliseconds"|metric names should not contain abbreviated units)$`)

// lint makes promtool check a scrape.
func lint(b *bed.Bed, t *testing.T) {
	_, stderr, _ := b.Run(t.Context(), "sh", "-c", "curl -s "+bed.Base+"/metrics | promtool check metrics")
	needed := map[string]bool{}
	for line := range strings.Lines(stderr) {
		assert.Regexp(t, tolerated, strings.TrimSpace(line))
		name, _, _ := strings.Cut(line, " ")
		needed[name] = true
	}
	assert.Len(t, needed, 2, "an exception is not needed any more")
}

// scrape reads the metrics, as a proxy for forwardedFor if that is not empty.
func scrape(b *bed.Bed, t *testing.T, key, forwardedFor string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, bed.Base+"/metrics", nil)
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if forwardedFor != "" {
		req.Header.Set("X-Forwarded-For", forwardedFor)
	}
	res, err := b.HTTP.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// guarded asserts that this host needs no key, and that requests through a proxy on it
// do.
func guarded(b *bed.Bed, t *testing.T) {
	key, err := b.ReadFile("/etc/prometheus/codex-proxy.key")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, scrape(b, t, "", ""))
	assert.Equal(t, http.StatusUnauthorized, scrape(b, t, "", "192.0.2.1"))
	assert.Equal(t, "401", b.MustRun(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", bed.Base+"/metrics", "-H",
		"Host: codex.example"))
	assert.Equal(t, "401", b.MustRun(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--http1.0",
		bed.Base+"/metrics"))
	assert.Equal(t, http.StatusOK, scrape(b, t, strings.TrimSpace(string(key)), "192.0.2.1"))
	status := b.MustRun(t, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", bed.Base+"/v1/chat/completions",
		"-H", "Authorization: Bearer "+strings.TrimSpace(string(key)), "-H", "Content-Type: application/json",
		"-d", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, bed.Model))
	assert.Equal(t, "404", status, "the scraper's key can run nothing")
}

// questions runs the PromQL of the manual.
func (p promServer) questions(t *testing.T, doc *manual.Manual) {
	answered := 0
	for _, block := range doc.All("promql") {
		for promql := range strings.Lines(block) {
			vector, err := p.query(strings.TrimSpace(promql))
			require.NoError(t, err, promql)
			if len(vector) > 0 {
				answered++
			}
		}
	}
	assert.GreaterOrEqual(t, answered, 16, "questions that have no answer in such a life prove nothing")
}

// alerts asserts that the alerts load, evaluate, and query existing metrics only.
func (p promServer) alerts(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Query, Health, LastError, State string }
		}
	}
	require.NoError(t, p.get("rules", nil, &rules))
	require.Len(t, rules.Groups, 2)
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			assert.Equal(t, "ok", rule.Health, "%s: %s", rule.Name, rule.LastError)
			assert.NotEqual(t, "firing", rule.State, rule.Name)
			p.exists(t, rule.Name, rule.Query)
		}
	}
}

// dashboard asserts that each query of a panel has existing names and labels, and that
// Prometheus can read it.
func (p promServer) dashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	require.NoError(t, err)
	exprs := expressions(t, data, "codex-proxy", "worker query")
	require.Greater(t, len(exprs), 20)
	for title, list := range exprs {
		for _, expr := range list {
			expr = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$instance", ".*", "$worker",
				".*").Replace(expr)
			_, err := p.query(expr)
			assert.NoError(t, err, "%s: %s", title, expr)
			p.exists(t, title, expr)
		}
	}
}

var (
	quoted     = regexp.MustCompile(`"[^"]*"`)
	metricName = regexp.MustCompile(`\b(?:codex|node|process|go)_[a-z_]+|\bup\b`)
	selector   = regexp.MustCompile(`((?:codex|node|process|go)_[a-z_]+|\bup)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)

	// conditional are the metrics that this machine does not have.
	conditional = regexp.MustCompile(`^codex_(turn_rotations_total|worker_rate_limit_\w+|database_\w+|key_\w+|watchdog_\w+|remote_\w+)$`)
)

// exists looks for the names in a query, and the labels that it selects by.
func (p promServer) exists(t *testing.T, what, promql string) {
	t.Helper()
	has := func(selector string) bool {
		var series []map[string]string
		require.NoError(t, p.get("series", url.Values{"match[]": {selector}}, &series))
		return len(series) > 0
	}
	for _, name := range metricName.FindAllString(quoted.ReplaceAllString(promql, `""`), -1) {
		assert.True(t, conditional.MatchString(name) || has(name), "%s: there is no metric %s", what, name)
	}
	for _, s := range selector.FindAllStringSubmatch(quoted.ReplaceAllString(promql, `""`), -1) {
		for _, label := range matcher.FindAllStringSubmatch(s[2], -1) {
			assert.True(t, conditional.MatchString(s[1]) || has(fmt.Sprintf(`%s{%s!=""}`, s[1], label[1])),
				"%s: %s has no label %s", what, s[1], label[1])
		}
	}
}

// TestAlerts makes promtool run the tests of the alerts, and read the dashboard of codex-runner, whose alerts have one
// too. Those of codex-proxy's dashboard are asked for in TestPrometheus.
func TestAlerts(t *testing.T) {
	t.Parallel()
	b := bed.Boot(t, bed.Neighbours())
	for _, program := range []string{"", "runner-"} {
		rules, tests := program+"alerts.yaml", program+"alerts_test.yaml"
		for _, name := range []string{rules, tests} {
			data, err := os.ReadFile(filepath.Join(monitoring, name))
			require.NoError(t, err)
			require.NoError(t, b.WriteFile("/root/"+name, data, 0o644))
		}
		shown(b, rules, tests)
		b.MustRun(t, "promtool", "check", "rules", "/root/"+rules)
		b.MustRun(t, "promtool", "test", "rules", "/root/"+tests)
	}
	data, err := os.ReadFile(filepath.Join(monitoring, "runner-dashboard.json"))
	require.NoError(t, err)
	var records strings.Builder
	records.WriteString("groups:\n  - name: panels\n    rules:\n")
	for _, list := range expressions(t, data, "codex-runner") {
		for _, expr := range list {
			expr = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$instance", ".*").Replace(expr)
			fmt.Fprintf(&records, "      - {record: r%d, expr: %q}\n", records.Len(), expr)
		}
	}
	require.NoError(t, b.WriteFile("/root/panels.yaml", []byte(records.String()), 0o644))
	b.MustRun(t, "promtool", "check", "rules", "/root/panels.yaml")
}

// shown asserts that the tests of alerts have each of them fire, and be silent.
func shown(b *bed.Bed, rules, tests string) {
	data, err := b.ReadFile("/root/" + tests)
	require.NoError(b.T, err)
	for _, alert := range strings.Fields(b.MustRun(b.T, "sed", "-n", "s/^ *- alert: //p", "/root/"+rules)) {
		silent, fires := 0, 0
		for _, rest := range strings.Split(string(data), "alertname: "+alert)[1:] {
			if strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(rest, "}")), "exp_alerts:") {
				fires++
			} else {
				silent++
			}
		}
		assert.Positive(b.T, fires, "nothing shows that %s fires", alert)
		assert.Positive(b.T, silent, "nothing shows that %s is silent", alert)
	}
}
