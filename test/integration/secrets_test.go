package integration

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

	"codex-proxy/test/modelserver"
)

// planted are texts of clients and of the model, which a search can find wherever they
// are left. None is part of another.
var planted = map[string]string{
	"prompt":   "planted-prompt-7c1f",
	"system":   "planted-system-0b5e",
	"answer":   "planted-answer-93ad",
	"refusal":  "planted-refusal-e2c4",
	"stranger": "sk-planted-stranger-51fb",
	"query":    "planted-query-a66d",
	"field":    "planted-field-d017",
	"held":     "planted-held-88b2",
	"tool":     "planted_tool_19ec",
	"argument": "planted-argument-f3a8",
	"result":   "planted-result-6d72",
	"image":    "planted-image-2b90",
}

// The default log level leaves nothing of a request's content behind, and no log level
// anything of a key, after any event: answers, errors of every kind, clients that
// disconnect, and the end of the proxy by its watchdog with a goroutine dump.
func TestSecretsStaySecret(t *testing.T) { bothSuites(t, testSecretsStaySecret) }

func testSecretsStaySecret(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.installFaulty()
	b.dropIn(proxyUnit, "fault", shortWatchdog+"Environment=CODEX_PROXY_FAULT=accept\n")
	b.start()
	key := b.addKey("planted", "--requests-per-minute=1000")
	revoked := b.addKey("revoked")
	b.keys("revoke", "revoked")
	secrets := map[string]string{"key": key, "revoked key": revoked}
	for name, text := range planted {
		secrets[name] = text
	}

	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		b.plant(path, key, revoked)
	}
	// A request is in flight when the watchdog kills the proxy: the dump has its
	// goroutines with their data.
	flying := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
	defer cancel()
	go func() {
		defer close(flying)
		_, _ = b.send(ctx, "/v1/chat/completions", key, chatBody("[[text "+planted["held"]+"]][[silence]]", true))
	}()
	_, err := b.models.Wait(ctx, func([]modelserver.Request) bool { return b.seen(planted["held"]) > 0 })
	require.NoError(t, err)
	b.until("in flight", func(_ int, r report) bool { return r.Workers[0].Inflight == 1 })
	b.signal(b.onlyProcess(proxyUnit), unix.SIGUSR1)
	b.untilShow(proxyUnit, "NRestarts", "1")
	b.until("ready", ready)
	<-flying
	assert.Equal(t, "0", b.show(proxyUnit, "LimitCORE")["LimitCORE"])

	everything := b.outputs(key)
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
	assert.Contains(t, b.filesWith("planted "), "/etc/codex-proxy/api-keys", "files are not searched")
	for name, secret := range secrets {
		isKey := name == "key" || name == "revoked key" || name == "stranger"
		for _, file := range b.filesWith(secret) {
			assert.True(t, !isKey && meantForContent(file), "%s: %s", file, name)
		}
	}
	assert.Empty(t, trim(b.MustRun(t, "sh", "-c",
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
func (b *bed) plant(path, key, revoked string) {
	b.t.Helper()
	body := chatBody
	if path == "/v1/responses" {
		body = func(prompt string, stream bool) string {
			return fmt.Sprintf(`{"model":%q,"stream":%t,"instructions":%q,"input":%q,"store":true}`, model, stream,
				planted["system"], planted["prompt"]+" "+prompt)
		}
	}
	for i, r := range []struct {
		path, key, body string
	}{
		{path, key, body("[[text "+planted["answer"]+"]]", false)},
		{path, key, body("[[text "+planted["answer"]+"]]", true)},
		{path, key, body("[[error 500 "+planted["refusal"]+"]]", false)},
		{path, key, body(`[[error 400 {"error":{"message":"`+planted["refusal"]+`"}}]]`, false)},
		{path, key, body("[[error 429 "+planted["refusal"]+"]]", true)},
		{path, key, body("[[text "+planted["answer"]+"]][[failed server_error "+planted["refusal"]+"]]", true)},
		{path, key, body("[[text "+planted["answer"]+"]][[drop]]", true)},
		{path, key, body("[[text "+planted["answer"]+"]][[incomplete]]", false)},
		{path, key, body("[[text x]]", false)[:40] + planted["prompt"]},
		{path, key, `{"` + planted["field"] + `":1,"model":"` + model + `"}`},
		{path, key, `{"model":7,"messages":"` + planted["prompt"] + `"}`},
		{path + "?" + planted["query"] + "=" + planted["query"], key, body("[[text x]]", false)},
		{path + "/" + planted["query"], key, body("[[text x]]", false)},
		{path, planted["stranger"], body("[[text x]]", false)},
		{path, revoked, body("[[text x]]", false)},
	} {
		ctx, cancel := context.WithTimeout(b.t.Context(), bound)
		status, answer := b.send(ctx, r.path, r.key, r.body)
		cancel()
		if i == 0 {
			require.Equal(b.t, http.StatusOK, status, answer)
			require.Contains(b.t, answer, planted["answer"])
		}
	}
	if path == "/v1/chat/completions" {
		b.plantTools(key)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second) // this client disconnects
	defer cancel()
	_, _ = b.send(ctx, path, key, body("[[text "+planted["answer"]+"]][[silence]]", true))
}

// plantTools makes the model call a tool, answers it, and names images that cannot be
// fetched.
func (b *bed) plantTools(key string) {
	b.t.Helper()
	tools := fmt.Sprintf(`"tools":[{"type":"function","function":{"name":%q,"description":%q,"parameters":{"type":"object","properties":{%q:{"type":"string"}}}}}]`,
		planted["tool"], planted["system"], planted["argument"])
	call := fmt.Sprintf(`[[call %s {"a":%q}]]`, planted["tool"], planted["argument"])
	content := func(v string) string { return fmt.Sprintf(`{"model":%q,%s,"messages":[%s]}`, model, tools, v) }
	image := func(url string) string {
		return content(fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":%q}}]}`, url))
	}
	for i, body := range []string{
		content(fmt.Sprintf(`{"role":"user","content":%q}`, call)),
		content(fmt.Sprintf(`{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":%q,"arguments":%q}}]},{"role":"tool","tool_call_id":"call_1","content":%q}`,
			planted["tool"], `{"a":"`+planted["argument"]+`"}`, planted["result"])),
		image("http://127.0.0.1:1/" + planted["image"] + "?" + planted["query"]),
		image("http://" + planted["image"] + ".invalid/" + planted["query"]),
		image("data:image/png;base64," + planted["image"]),
	} {
		ctx, cancel := context.WithTimeout(b.t.Context(), bound)
		status, answer := b.send(ctx, "/v1/chat/completions", key, body)
		cancel()
		if i < 2 {
			assert.Equal(b.t, http.StatusOK, status, answer)
		} else {
			assert.NotEqual(b.t, http.StatusOK, status, answer)
		}
	}
}

func chatBody(prompt string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"user":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`,
		model, stream, planted["field"], planted["system"], planted["prompt"]+" "+prompt)
}

var plants atomic.Int64

// send returns the part of the answer that came before the connection or ctx ended.
func (b *bed) send(ctx context.Context, path, key, body string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("X-Request-Id", fmt.Sprint("planted-", plants.Add(1)))
	res, err := b.http.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(answer)
}

// outputs are what the machine shows of the units of the service.
func (b *bed) outputs(key string) map[string]string {
	b.t.Helper()
	sh := func(script string) string { return b.MustRun(b.t, "sh", "-c", script) }
	metrics, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, base+"/metrics", nil)
	require.NoError(b.t, err)
	metrics.Header.Set("Authorization", "Bearer "+key)
	res, err := b.http.Do(metrics)
	require.NoError(b.t, err)
	defer res.Body.Close()
	exposition, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
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
func (b *bed) filesWith(text string) []string {
	b.t.Helper()
	return strings.Fields(b.MustRun(b.t, "sh", "-c",
		`grep -rlaF --devices=skip -e "$0" /etc /var /run /tmp /root /home 2>/dev/null || true`, text))
}
