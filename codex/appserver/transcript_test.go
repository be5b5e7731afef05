package appserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/versions"
)

var update = flag.Bool("update", false, "record testdata/transcript.jsonl again (needs CODEX_PROXY_TEST_CODEX)")

const recorded = "testdata/transcript.jsonl"

// step is one message of a server, named by its method or by the request that it answers.
type step struct {
	Scenario string         `json:"scenario"`
	Name     string         `json:"name"`
	Message  map[string]any `json:"message"`
}

// scenarios end when the thread has been closed.
var scenarios = []string{"turn", "failure", "interrupt"}

func TestFakeIsLikeCodex(t *testing.T) {
	handler := func(ctx context.Context, turn *appservertest.Turn) error {
		switch turn.Request.Prompt() {
		case "failure":
			return &appservertest.Failure{Message: "no luck", Info: "internalServerError"}
		case "interrupt":
			turn.Begin("").Delta("Hel")
			<-ctx.Done()
			return nil
		}
		turn.Reasoning("let me ", "think")
		turn.Text("Hello", " world")
		turn.EndResponse(appservertest.Usage{Input: 11, Cached: 3, Output: 7, Reasoning: 2})
		return nil
	}
	models := []appservertest.Model{{ID: "gpt-5.5"}}
	fake := record(t, appservertest.Start(t, &appservertest.Server{Models: models, Handler: handler}), true)
	codex := load(t)
	for _, scenario := range scenarios {
		assert.Equal(t, order(codex, scenario), order(fake, scenario), scenario)
	}
	want, got := shapes(codex), shapes(fake)
	for name, shape := range got {
		for path, kinds := range shape.kinds {
			for kind := range kinds {
				assert.Contains(t, want[name].kinds[path], kind, "%s: codex has no such %s", name, path)
			}
		}
		for path, n := range want[name].counts {
			if n == want[name].seen {
				assert.Contains(t, shape.kinds, path, "%s: the fake lacks %s", name, path)
			}
		}
	}
}

// Each codex sends the recorded messages in their order, and the newest one with all their members.
func testTranscript(t *testing.T, l *live) {
	l.plays(helloWorld,
		status(500, `{"error":{"message":"no"}}`),
		func(s *stream) { s.created(); s.deltas("msg_1", "Hel"); s.hang() })
	codex := record(t, l.socket, l.minor >= 169)
	if *update {
		save(t, codex, filepath.Dir(l.socket))
	}
	old, now := load(t), shapes(codex)
	for _, scenario := range scenarios {
		want := order(old, scenario)
		if l.minor < 169 { // it does not unload the thread
			want = want[:len(want)-2]
		}
		if l.minor < versions.MarksResponses {
			want = slices.DeleteFunc(want, func(name string) bool { return name == "rawResponse/completed" })
		}
		assert.Equal(t, want, order(codex, scenario), scenario)
	}
	if l.minor < versions.Tested {
		return // it lacks members that came later
	}
	for name, shape := range shapes(old) {
		for path := range shape.kinds {
			assert.Contains(t, now[name].kinds, path, "%s: codex no longer sends %s", name, path)
		}
	}
}

// order lists the notifications of a scenario, without those at random places.
func order(steps []step, scenario string) (names []string) {
	for _, s := range steps {
		_, isReply := s.Message["id"]
		chance := strings.HasPrefix(s.Name, "rawResponseItem/completed echo") || s.Name == "configWarning" ||
			strings.HasPrefix(s.Name, "remoteControl/") || s.Name == "thread/started" ||
			s.Name == "thread/settings/updated"
		if s.Scenario == scenario && !isReply && !chance {
			names = append(names, s.Name)
		}
	}
	return names
}

// shape holds the members that the messages of one name have in common.
type shape struct {
	seen   int
	counts map[string]int
	kinds  map[string]map[string]bool // path → JSON types
}

func shapes(steps []step) map[string]*shape {
	all := map[string]*shape{}
	for _, s := range steps {
		if all[s.Name] == nil {
			all[s.Name] = &shape{counts: map[string]int{}, kinds: map[string]map[string]bool{}}
		}
		one := map[string]string{}
		walk(s.Message, "", one)
		all[s.Name].seen++
		for path, kind := range one {
			if all[s.Name].kinds[path] == nil {
				all[s.Name].kinds[path] = map[string]bool{}
			}
			all[s.Name].counts[path]++
			all[s.Name].kinds[path][kind] = true
		}
	}
	return all
}

// walk lists the paths of a message with their types, without those that depend on the model and the host's account.
func walk(v any, path string, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, sub := range v {
			walk(sub, path+"."+k, out)
		}
		out[path] = "object"
	case []any:
		for _, sub := range v {
			walk(sub, path+"[]", out)
		}
		out[path] = "array"
	default:
		out[path] = strings.TrimPrefix(fmt.Sprintf("%T", v), "<nil>")
		if v == nil {
			out[path] = "null"
		}
	}
	for _, left := range []string{".environments[]", ".serviceTiers[]", ".availableAccessPrograms",
		".additionalSpeedTiers[]",
		".availabilityNux", ".upgrade", ".runtimeWorkspaceRoots[]", ".instructionSources[]",
		".error.codexErrorInfo", ".path"} {
		if strings.Contains(path, left) {
			delete(out, path)
		}
	}
}

// record plays the scenarios against a server, with all notifications. It waits for the end of each thread if the server
// unloads threads.
func record(t *testing.T, socket string, unloads bool) []step {
	t.Helper()
	ctx := bound(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	ws, _, err := websocket.Dial(ctx, "ws://codex/",
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	ws.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = ws.CloseNow() })
	r := &recorder{t: t, ctx: ctx, ws: ws, asked: map[float64]string{}, unloads: unloads}
	r.call("initialize", map[string]any{
		"clientInfo": map[string]any{"name": "recorder",
			"version": "1"}, "capabilities": map[string]any{"experimentalApi": true},
	})
	require.NoError(t, ws.Write(ctx, websocket.MessageText, []byte(`{"method":"initialized"}`)))
	r.call("model/list", map[string]any{})
	for _, scenario := range scenarios {
		r.play(scenario)
	}
	return r.steps
}

type recorder struct {
	t        *testing.T
	ctx      context.Context
	ws       *websocket.Conn
	scenario string
	unloads  bool
	asked    map[float64]string
	steps    []step
}

func (r *recorder) play(scenario string) {
	r.scenario = scenario
	result := r.call("thread/start", map[string]any{
		"ephemeral": true, "model": "gpt-5.5", "cwd": "/", "environments": []any{}, "experimentalRawEvents": true,
	})
	thread := result["thread"].(map[string]any)["id"]
	r.call("thread/inject_items", map[string]any{"threadId": thread, "items": []any{
		map[string]any{"type": "message", "role": "user",
			"content": []any{map[string]any{"type": "input_text", "text": scenario}}},
	}})
	params := map[string]any{"threadId": thread, "input": []any{}, "summary": "detailed"}
	turn := r.call("turn/start", params)["turn"].(map[string]any)["id"]
	if scenario == "interrupt" {
		r.until("item/agentMessage/delta")
		r.call("turn/interrupt", map[string]any{"threadId": thread, "turnId": turn})
	}
	r.until("turn/completed")
	r.call("thread/unsubscribe", map[string]any{"threadId": thread})
	if r.unloads {
		r.until("thread/closed")
	}
}

func (r *recorder) call(method string, params any) map[string]any {
	r.t.Helper()
	id := float64(len(r.asked) + 1)
	r.asked[id] = "reply to " + method
	b, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	require.NoError(r.t, err)
	require.NoError(r.t, r.ws.Write(r.ctx, websocket.MessageText, b))
	m := r.until("reply to " + method)
	require.Contains(r.t, m, "result", "%v", m)
	return m["result"].(map[string]any)
}

// until reads messages up to one of that name, unless this scenario has had it.
func (r *recorder) until(name string) map[string]any {
	r.t.Helper()
	for _, s := range r.steps {
		if s.Scenario == r.scenario && s.Name == name {
			return s.Message
		}
	}
	for {
		_, b, err := r.ws.Read(r.ctx)
		require.NoError(r.t, err)
		var m map[string]any
		require.NoError(r.t, json.Unmarshal(b, &m))
		got, isNotification := m["method"].(string)
		if !isNotification {
			got = r.asked[m["id"].(float64)]
		}
		r.steps = append(r.steps, step{r.scenario, qualified(got, m), m})
		if got == name {
			return m
		}
	}
}

// qualified distinguishes messages of one method that look different.
func qualified(name string, m map[string]any) string {
	params, _ := m["params"].(map[string]any)
	item, _ := params["item"].(map[string]any)
	if params["turnId"] == "auto-compact-0" {
		return name + " echo"
	}
	if kind, ok := item["type"].(string); ok {
		return name + " " + kind
	}
	return name
}

func load(t *testing.T) (steps []step) {
	t.Helper()
	b, err := os.ReadFile(recorded)
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s step
		require.NoError(t, json.Unmarshal(lines.Bytes(), &s))
		steps = append(steps, s)
	}
	require.NoError(t, lines.Err())
	return steps
}

// save writes the transcript without the paths of this machine.
func save(t *testing.T, steps []step, home string) {
	t.Helper()
	host, err := os.Hostname()
	require.NoError(t, err)
	steps = slices.DeleteFunc(steps, func(s step) bool { return s.Name == "configWarning" })
	var out bytes.Buffer
	for _, s := range steps {
		require.NoError(t, json.NewEncoder(&out).Encode(s))
	}
	text := strings.NewReplacer(home, "/codex-home", `"`+host+`"`, `"host"`).Replace(out.String())
	require.NoError(t, os.MkdirAll(filepath.Dir(recorded), 0o755))
	require.NoError(t, os.WriteFile(recorded, []byte(text), 0o644))
}
