package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// The default log level leaves nothing of a request's content behind, and no log level
// anything of a key, after any event: answers, errors of every kind, clients that
// disconnect, and the end of the proxy by its watchdog with a goroutine dump.
func TestSecretsStaySecret(t *testing.T) { bed.EitherSuite(t, testSecretsStaySecret) }

func testSecretsStaySecret(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	installFaulty(b)
	b.DropIn(bed.ProxyUnit, "fault", shortWatchdog+"Environment=CODEX_PROXY_FAULT=accept\n")
	b.Start()
	key := bed.AddKey(b, "planted", "--requests-per-minute=1000")
	revoked := bed.AddKey(b, "revoked")
	bed.Keys(b, "revoke", "revoked")
	secrets := map[string]string{"key": key, "revoked key": revoked}
	for name, text := range bed.Planted {
		secrets[name] = text
	}

	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		plant(b, path, key, revoked)
	}
	// A request is in flight when the watchdog kills the proxy: the dump has its
	// goroutines with their data.
	flying := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*bed.Bound)
	defer cancel()
	go func() {
		defer close(flying)
		_, _ = send(b, ctx, "/v1/chat/completions", key, bed.ChatBody("[[text "+bed.Planted["held"]+"]][[silence]]", true))
	}()
	_, err := b.Models.Wait(ctx, func([]modelserver.Request) bool { return seen(b, bed.Planted["held"]) > 0 })
	require.NoError(t, err)
	b.Until("in flight", func(_ int, r bed.Report) bool { return r.Workers[0].Inflight == 1 })
	b.Signal(b.OnlyProcess(bed.ProxyUnit), unix.SIGUSR1)
	b.UntilShow(bed.ProxyUnit, "NRestarts", "1")
	b.Until("ready", bed.Ready)
	<-flying
	assert.Equal(t, "0", b.Properties(bed.ProxyUnit, "LimitCORE")["LimitCORE"])

	everything := outputs(b, key)
	assert.Contains(t, everything["journal"], "SIGABRT: abort", "there was no dump")
	assert.Contains(t, everything["journal"], "request_id=planted-", "the requests did not get there")
	assert.Contains(t, everything["metrics"], `key="planted"`)
	for where, text := range everything {
		for name, secret := range secrets {
			if i := strings.Index(text, secret); i >= 0 {
				assert.Fail(t, "a secret was left behind", "%s: %s: …%s…", where, name,
					text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
	assert.Contains(t, filesWith(b, "planted "), "/etc/codex-proxy/api-keys", "files are not searched")
	for name, secret := range secrets {
		isKey := name == "key" || name == "revoked key" || name == "stranger"
		for _, file := range filesWith(b, secret) {
			assert.True(t, !isKey && meantForContent(file), "%s: %s", file, name)
		}
	}
	assert.Empty(t, bed.Trim(b.MustRun(t, "sh", "-c",
		`find / -xdev \( -name 'core' -o -name 'core.*' \) -type f -newer /etc/codex-proxy/api-keys -not -path '/proc/*' -not -path '/sys/*'; ls /var/lib/systemd/coredump 2>/dev/null || true`)), "a core")
}

// meantForContent recognises the stores whose purpose is content, or which cannot be
// turned off: stored responses, and the log that codex keeps in its own home. Only
// their users can read them (TestPermissions).
func meantForContent(file string) bool {
	return strings.HasPrefix(file, "/var/lib/codex-proxy/responses.db") ||
		strings.HasPrefix(file, "/var/lib/private/codex-worker/default/logs_")
}

// plant sends requests that end in every possible way.
func plant(b *bed.Bed, path, key, revoked string) {
	b.T.Helper()
	body := bed.ChatBody
	if path == "/v1/responses" {
		body = func(prompt string, stream bool) string {
			return fmt.Sprintf(`{"model":%q,"stream":%t,"instructions":%q,"input":%q,"store":true}`, bed.Model, stream,
				bed.Planted["system"], bed.Planted["prompt"]+" "+prompt)
		}
	}
	for i, r := range []struct {
		path, key, body string
	}{
		{path, key, body("[[text "+bed.Planted["answer"]+"]]", false)},
		{path, key, body("[[text "+bed.Planted["answer"]+"]]", true)},
		{path, key, body("[[error 500 "+bed.Planted["refusal"]+"]]", false)},
		{path, key, body(`[[error 400 {"error":{"message":"`+bed.Planted["refusal"]+`"}}]]`, false)},
		{path, key, body("[[error 429 "+bed.Planted["refusal"]+"]]", true)},
		{path, key, body("[[text "+bed.Planted["answer"]+"]][[failed server_error "+bed.Planted["refusal"]+"]]", true)},
		{path, key, body("[[text "+bed.Planted["answer"]+"]][[drop]]", true)},
		{path, key, body("[[text "+bed.Planted["answer"]+"]][[incomplete]]", false)},
		{path, key, body("[[text x]]", false)[:40] + bed.Planted["prompt"]},
		{path, key, `{"` + bed.Planted["field"] + `":1,"model":"` + bed.Model + `"}`},
		{path, key, `{"model":7,"messages":"` + bed.Planted["prompt"] + `"}`},
		{path + "?" + bed.Planted["query"] + "=" + bed.Planted["query"], key, body("[[text x]]", false)},
		{path + "/" + bed.Planted["query"], key, body("[[text x]]", false)},
		{path, bed.Planted["stranger"], body("[[text x]]", false)},
		{path, revoked, body("[[text x]]", false)},
	} {
		ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
		status, answer := send(b, ctx, r.path, r.key, r.body)
		cancel()
		if i == 0 {
			require.Equal(b.T, http.StatusOK, status, answer)
			require.Contains(b.T, answer, bed.Planted["answer"])
		}
	}
	if path == "/v1/chat/completions" {
		plantTools(b, key)
	}
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Second) // this client disconnects
	defer cancel()
	_, _ = send(b, ctx, path, key, body("[[text "+bed.Planted["answer"]+"]][[silence]]", true))
}

// plantTools makes the model call a tool, answers it, and names images that cannot be
// fetched.
func plantTools(b *bed.Bed, key string) {
	b.T.Helper()
	tools := fmt.Sprintf(`"tools":[{"type":"function","function":{"name":%q,"description":%q,"parameters":{"type":"object","properties":{%q:{"type":"string"}}}}}]`,
		bed.Planted["tool"], bed.Planted["system"], bed.Planted["argument"])
	call := fmt.Sprintf(`[[call %s {"a":%q}]]`, bed.Planted["tool"], bed.Planted["argument"])
	content := func(v string) string { return fmt.Sprintf(`{"model":%q,%s,"messages":[%s]}`, bed.Model, tools, v) }
	image := func(url string) string {
		return content(fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":%q}}]}`, url))
	}
	for i, body := range []string{
		content(fmt.Sprintf(`{"role":"user","content":%q}`, call)),
		content(fmt.Sprintf(`{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":%q,"arguments":%q}}]},{"role":"tool","tool_call_id":"call_1","content":%q}`,
			bed.Planted["tool"], `{"a":"`+bed.Planted["argument"]+`"}`, bed.Planted["result"])),
		image("http://127.0.0.1:1/" + bed.Planted["image"] + "?" + bed.Planted["query"]),
		image("http://" + bed.Planted["image"] + ".invalid/" + bed.Planted["query"]),
		image("data:image/png;base64," + bed.Planted["image"]),
	} {
		ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
		status, answer := send(b, ctx, "/v1/chat/completions", key, body)
		cancel()
		if i < 2 {
			assert.Equal(b.T, http.StatusOK, status, answer)
		} else {
			assert.NotEqual(b.T, http.StatusOK, status, answer)
		}
	}
}

var plants atomic.Int64

// send returns the part of the answer that came before the connection or ctx ended.
func send(b *bed.Bed, ctx context.Context, path, key, body string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bed.Base+path, strings.NewReader(body))
	require.NoError(b.T, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("X-Request-Id", fmt.Sprint("planted-", plants.Add(1)))
	res, err := b.HTTP.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(answer)
}

// outputs are what the machine shows of the units of the service.
func outputs(b *bed.Bed, key string) map[string]string {
	b.T.Helper()
	sh := func(script string) string { return b.MustRun(b.T, "sh", "-c", script) }
	metrics, err := http.NewRequestWithContext(b.T.Context(), http.MethodGet, bed.Base+"/metrics", nil)
	require.NoError(b.T, err)
	metrics.Header.Set("Authorization", "Bearer "+key)
	res, err := b.HTTP.Do(metrics)
	require.NoError(b.T, err)
	defer res.Body.Close()
	exposition, err := io.ReadAll(res.Body)
	require.NoError(b.T, err)
	return map[string]string{
		"metrics":     string(exposition),
		"journal":     sh("journalctl --sync; journalctl --no-pager --all --output=verbose --boot; journalctl --no-pager --all --output=cat --boot"),
		"environment": sh(`cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'`),
		"cmdline":     sh(`cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' '`),
		"show":        sh(`systemctl show '*'; systemctl status --no-pager --full --lines=1000 'codex*' || true`),
		"status":      sh("codex-proxy status --json; codex-proxy usage --by=day,key,model; codex-proxy keys list"),
	}
}

// filesWith are the files of the machine that hold the text: state, runtime
// directories, settings, temporary files, logs.
func filesWith(b *bed.Bed, text string) []string {
	b.T.Helper()
	return strings.Fields(b.MustRun(b.T, "sh", "-c",
		`grep -rlaF --devices=skip -e "$0" /etc /var /run /tmp /root /home 2>/dev/null || true`, text))
}
