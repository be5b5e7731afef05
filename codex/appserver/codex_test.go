package appserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"codex-proxy/codex/versions"
	"codex-proxy/test/codexes"

	"github.com/stretchr/testify/require"
)

// installed is one codex of the tests.
type installed struct {
	minor   int // 171 of 0.171.0
	program string
}

// each runs a test with each codex of the tests, side by side: they wait more than they work.
func each(t *testing.T, test func(t *testing.T, c installed)) {
	t.Helper()
	codexes.Each(t, versions.Oldest, func(t *testing.T, minor int, program string) {
		t.Parallel()
		test(t, installed{minor, program})
	})
}

// provider ends each configuration.
const provider = `
[model_providers.loop]
name = "loop"
base_url = "{{.URL}}/v1"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = {{.Retries}}
stream_max_retries = {{.Retries}}
stream_idle_timeout_ms = 5000
`

// plain is the configuration of a worker without tools. An older codex passes over the settings that it does not know.
var plain = template.Must(template.New("").Parse(`
model = "gpt-5.5"
model_provider = "loop"
model_catalog_json = "{{.Catalog}}"
model_context_window = 100000000
tool_output_token_limit = 10000000
approval_policy = "never"
sandbox_mode = "read-only"
web_search = "disabled"
check_for_update_on_startup = false
cli_auth_credentials_store = "file"
project_doc_max_bytes = 0
include_permissions_instructions = false
include_apps_instructions = false
include_environment_context = false
include_collaboration_mode_instructions = false
history.persistence = "none"
analytics.enabled = false
feedback.enabled = false
skills.include_instructions = false
skills.bundled.enabled = false
cloud.skills.enabled = false
tools.update_plan.enabled = false
tools.experimental_request_user_input.enabled = false
thread_unload_delay_secs = 0
{{if ge .Minor 153}}agents.enabled = false{{end}}
[features]
{{if lt .Minor 153}}multi_agent = false{{end}}
{{range .Features}}{{.}} = false
{{end}}` + provider))

// native is the configuration of a worker with codex's own tools.
var native = template.Must(template.New("").Parse(`
model = "gpt-5.5"
model_provider = "loop"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
` + provider))

var featuresOff = strings.Fields(`apps plugins remote_plugin shell_tool unified_exec goals view_image image_generation
	sleep_tool tool_suggest skill_search hooks shell_snapshot memories browser_use computer_use in_app_browser
	unbounded_connection_retries`)

// start runs a codex app-server with upstream as its model endpoint, and returns its socket and process.
func (c installed) start(
	t *testing.T, upstream http.Handler, config *template.Template, retries int,
) (socket string, process *os.Process) {
	t.Helper()
	web := httptest.NewServer(upstream)
	t.Cleanup(web.Close)
	home, err := os.MkdirTemp("", "codex")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	c.configure(t, home, config, web.URL, retries)

	socket = filepath.Join(home, "s")
	var stderr bytes.Buffer
	cmd := exec.Command(c.program, codexes.AppServer(c.program, socket)...)
	cmd.Env = codexEnv(home)
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if target, err := os.Readlink(socket); err == nil { // a killed codex leaves them in /tmp
			defer os.Remove(target)
			defer os.Remove(target + ".lock")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	require.Eventually(t, func() bool { // 0.153 binds it before it listens
		conn, err := net.Dial("unix", socket)
		return err == nil && conn.Close() == nil
	}, time.Minute, 5*time.Millisecond)
	return socket, cmd.Process
}

func codexEnv(home string) []string {
	return append(os.Environ(), "CODEX_HOME="+home, "HOME="+home)
}

func (c installed) configure(t *testing.T, home string, config *template.Template, url string, retries int) {
	t.Helper()
	catalog := filepath.Join(home, "models.json")
	var text bytes.Buffer
	require.NoError(t, config.Execute(&text, map[string]any{
		"Catalog": catalog, "URL": url, "Retries": retries, "Features": featuresOff, "Minor": c.minor,
	}))
	models, err := plainModels(c.program)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(catalog, models, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.toml"), text.Bytes(), 0o600))
}

// catalogues has the models of each codex, which one run of it lists for all tests.
var catalogues sync.Map

// plainModels is codex's own list of models without their tools.
func plainModels(program string) ([]byte, error) {
	list, _ := catalogues.LoadOrStore(program, sync.OnceValues(func() ([]byte, error) { return listModels(program) }))
	return list.(func() ([]byte, error))()
}

func listModels(program string) ([]byte, error) {
	home, err := os.MkdirTemp("", "codex")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	cmd := exec.Command(program, "debug", "models", "--bundled")
	cmd.Env = codexEnv(home)
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var models struct {
		Models []map[string]any `json:"models"`
	}
	if err := json.Unmarshal(out, &models); err != nil {
		return nil, err
	}
	for _, m := range models.Models {
		for k, v := range map[string]any{
			"tool_mode": "direct", "use_responses_lite": false, "multi_agent_version": nil,
			"apply_patch_tool_type": nil,
			"shell_type":            "disabled", "experimental_supported_tools": []any{}, "supports_search_tool": false,
			"upgrade": nil, "availability_nux": nil, "max_context_window": 100000000,
		} {
			m[k] = v
		}
	}
	return json.Marshal(models)
}

// upstream is a Responses API that plays scripts: each request gets the next one, and all after the last one that.
type upstream struct {
	mu      sync.Mutex
	scripts []func(*stream)
	bodies  []string
	cut     chan struct{} // a value for each request that the client has cancelled
}

func newUpstream(scripts ...func(*stream)) *upstream {
	return &upstream{scripts: scripts, cut: make(chan struct{}, 100)}
}

func (u *upstream) script(scripts ...func(*stream)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scripts, u.bodies = scripts, nil
}

func (u *upstream) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bodies
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	script := u.scripts[0]
	if len(u.scripts) > 1 {
		u.scripts = u.scripts[1:]
	}
	u.bodies = append(u.bodies, string(body))
	u.mu.Unlock()
	script(&stream{w, r, u})
}

// stream is one answer of the upstream.
type stream struct {
	http.ResponseWriter
	request  *http.Request
	upstream *upstream
}

func (s *stream) event(kind string, fields map[string]any) {
	fields["type"] = kind
	b, _ := json.Marshal(fields)
	fmt.Fprintf(s, "event: %s\ndata: %s\n\n", kind, b)
	s.ResponseWriter.(http.Flusher).Flush()
}

func (s *stream) created() {
	s.Header().Set("Content-Type", "text/event-stream")
	s.event("response.created", map[string]any{"response": map[string]any{"id": "resp_1"}})
}

func (s *stream) reasoning(chunks ...string) {
	s.event("response.output_item.added",
		map[string]any{"item": map[string]any{"type": "reasoning", "id": "rs_1", "summary": []any{}}})
	s.event("response.reasoning_summary_part.added", map[string]any{"item_id": "rs_1", "summary_index": 0})
	for _, c := range chunks {
		s.event("response.reasoning_summary_text.delta",
			map[string]any{"item_id": "rs_1", "summary_index": 0, "delta": c})
	}
	s.event("response.output_item.done", map[string]any{"item": map[string]any{
		"type": "reasoning", "id": "rs_1", "encrypted_content": "opaque",
		"summary": []any{map[string]any{"type": "summary_text", "text": strings.Join(chunks, "")}},
	}})
}

func (s *stream) deltas(id string, chunks ...string) {
	s.event("response.output_item.added", map[string]any{"item": map[string]any{
		"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []any{},
	}})
	for _, c := range chunks {
		s.event("response.output_text.delta", map[string]any{"item_id": id, "content_index": 0, "delta": c})
	}
}

func (s *stream) itemDone(id, text string) {
	s.event("response.output_item.done", map[string]any{"item": map[string]any{
		"type": "message", "id": id, "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}},
	}})
}

func (s *stream) completed() {
	s.event("response.completed", map[string]any{"response": map[string]any{"id": "resp_1", "usage": upstreamUsage}})
}

var upstreamUsage = map[string]any{
	"input_tokens": 11, "input_tokens_details": map[string]any{"cached_tokens": 3},
	"output_tokens": 7, "output_tokens_details": map[string]any{"reasoning_tokens": 2}, "total_tokens": 18,
}

// hang waits until the client cancels the request.
func (s *stream) hang() {
	<-s.request.Context().Done()
	s.upstream.cut <- struct{}{}
}

// drop drops the connection.
func (s *stream) drop() { panic(http.ErrAbortHandler) }

func (s *stream) failed(code string) {
	s.created()
	s.event("response.failed", map[string]any{"response": map[string]any{
		"id": "resp_1", "status": "failed", "error": map[string]any{"code": code, "message": "upstream says no"},
	}})
}

func (s *stream) incomplete(reason string) {
	s.event("response.incomplete", map[string]any{"response": map[string]any{
		"id": "resp_1", "status": "incomplete", "incomplete_details": map[string]any{
			"reason": reason}, "usage": upstreamUsage,
	}})
}

func helloWorld(s *stream) {
	s.created()
	s.reasoning("let me ", "think")
	s.deltas("msg_1", "Hello", " world")
	s.itemDone("msg_1", "Hello world")
	s.completed()
}

// status answers with a JSON error.
func status(code int, body string) func(*stream) {
	return func(s *stream) {
		s.Header().Set("Content-Type", "application/json")
		s.WriteHeader(code)
		_, _ = io.WriteString(s, body)
	}
}
