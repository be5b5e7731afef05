package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
)

// The promises of docs/reverse-proxies.md about each program hold for the program with
// its file there.
func TestReverseProxies(t *testing.T) {
	t.Parallel()
	doc := manual.Open(t, "docs/reverse-proxies.md")
	b := bed.NewOn(t, bed.Neighbours(), bed.RealWorker, "")
	b.Start()
	key, _, err := b.Run(t.Context(), "codex-proxy", "keys", "add", "front")
	require.NoError(t, err)
	b.Key = strings.TrimSpace(key)
	for name, f := range fronts() {
		t.Run(name, func(t *testing.T) {
			raise(b, f, doc)
			defer lower(b)
			t.Run("stream", func(t *testing.T) { bed.Hold(b, name).Finish(b) })
			t.Run("websocket", func(t *testing.T) { overWebSocket(b, t) })
			t.Run("body", func(t *testing.T) { bigBody(b, t) })
			t.Run("errors", func(t *testing.T) { errorsPass(b, t) })
			t.Run("only the API", func(t *testing.T) { onlyTheAPI(b, t) })
		})
	}
	t.Run("drain behind haproxy", func(t *testing.T) {
		raise(b, fronts()["haproxy"], doc)
		defer lower(b)
		drainBehind(b, t)
	})
	t.Run("traefik", func(t *testing.T) { readTraefik(t, doc.File("/etc/traefik/dynamic/codex-proxy.toml")) })
	t.Run("plain nginx", func(t *testing.T) { plainNginx(b, t) })
	t.Run("unix socket", func(t *testing.T) { overUnix(b, t, doc) })
}

// overWebSocket runs a turn on a WebSocket.
func overWebSocket(b *bed.Bed, t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	client := bed.NewClient(b)
	client.Transport.(*bed.Bearer).RoundTripper.(*bed.Fronted).ForceAttemptHTTP2 = false // the upgrade is of HTTP/1.1
	conn, _, err := websocket.Dial(ctx, bed.Base+"/v1/responses", &websocket.DialOptions{HTTPClient: client})
	require.NoError(t, err)
	defer conn.CloseNow() // closed below, if all went well
	conn.SetReadLimit(1 << 20)
	request := fmt.Sprintf(`{"type":"response.create","model":%q,"input":"[[text over the socket]]"}`, bed.Model)
	require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(request)))
	for {
		_, message, err := conn.Read(ctx)
		require.NoError(t, err)
		if strings.Contains(string(message), `"type":"response.completed"`) {
			assert.Contains(t, string(message), "over the socket")
			break
		}
	}
	assert.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
}

// bigBody sends nearly as much as codex-proxy accepts, and more.
func bigBody(b *bed.Bed, t *testing.T) {
	const mib = 1 << 20
	long := func(n int) string {
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":"[[text read it]]"}]}`, bed.Model, strings.Repeat("x", n))
	}
	res, text := b.AskThrough(t, http.MethodPost, "/v1/chat/completions", long(15*mib))
	assert.Equal(t, http.StatusOK, res.StatusCode, text)
	assert.Contains(t, text, "read it")
	res, text = b.AskThrough(t, http.MethodPost, "/v1/chat/completions", long(17*mib))
	assert.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
	assert.Contains(t, text, `"error":{`)
}

// errorsPass asserts that status, header and envelope of an error are the same as without
// a front, and that both have the client's request id.
func errorsPass(b *bed.Bed, t *testing.T) {
	for _, body := range []string{`{"model":"nobody","messages":[]}`, `{`} {
		res, text := b.AskThrough(t, http.MethodPost, "/v1/chat/completions", body, "X-Request-Id", "front-1")
		front := b.Front
		b.Front = nil
		plain, want := b.AskThrough(t, http.MethodPost, "/v1/chat/completions", body, "X-Request-Id", "front-1")
		b.Front = front
		assert.Equal(t, plain.StatusCode, res.StatusCode)
		assert.Equal(t, want, text)
		assert.Equal(t, "front-1", res.Header.Get("X-Request-Id"))
		assert.Equal(t, plain.Header.Get("Content-Type"), res.Header.Get("Content-Type"))
	}
	b.MustRun(t, "codex-proxy", "drain")
	defer b.MustRun(t, "codex-proxy", "undrain")
	res, text := b.AskThrough(t, http.MethodPost, "/v1/chat/completions", bed.ChatBody("hi", false))
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	if b.Front.Unit != "caddy.service" { // Caddy may have seen the drain, and refuses by itself
		assert.Contains(t, text, `"type":"backend_unavailable"`)
		assert.NotEmpty(t, res.Header.Get("Retry-After"))
	}
}

// onlyTheAPI asserts that the front serves no route for operators.
func onlyTheAPI(b *bed.Bed, t *testing.T) {
	for _, path := range []string{
		"/metrics", "/healthz", "/health", "/readyz", "/livez", "/", "/v1/../metrics", "/v1/%2e%2e/metrics", "//metrics",
	} {
		res, text := b.AskThrough(t, http.MethodGet, path, "")
		assert.NotEqual(t, http.StatusOK, res.StatusCode, path)
		assert.NotContains(t, text, "codex_worker", path)
		assert.NotContains(t, text, "liveness", path)
	}
}

// drainBehind runs a drain, an undrain and a restart behind HAProxy and beside a second
// server, under load. No request fails, and streams in flight are complete.
func drainBehind(b *bed.Bed, t *testing.T) {
	other := otherServer(b)
	awaitServer(b, "UP")
	held := holdHere(b, "drain")
	busy := startLoad(b, 8)
	busy.reach(t, 50)

	b.MustRun(t, "codex-proxy", "drain")
	awaitServer(b, "DOWN")
	other.await(t)
	b.Until("idle but for the stream", func(_ int, r bed.Report) bool { return r.Workers[0].Inflight == 1 })
	before := len(b.Models.Turns())
	busy.reach(t, 50)
	assert.Len(t, b.Models.Turns(), before, "a server that is out is still asked")
	held.Finish(b)

	b.MustRun(t, "codex-proxy", "undrain")
	awaitServer(b, "UP")
	awaitTurn(b, before)

	held = holdHere(b, "restart")
	restarted := b.Begin("systemctl", "restart", bed.ProxyUnit)
	b.Until("draining", func(_ int, r bed.Report) bool { return r.Health.Readiness.Reason == probes.Draining })
	busy.reach(t, 50)
	held.Finish(b)
	require.NoError(t, <-restarted)
	awaitServer(b, "UP")
	awaitTurn(b, len(b.Models.Turns()))
	busy.reach(t, 50)
	busy.end(t)
}

// plainNginx is Debian's nginx with only proxy_pass, which adds no header and speaks
// HTTP/1.0: its requests need a key, also if there is none.
func plainNginx(b *bed.Bed, t *testing.T) {
	const file = "/etc/nginx/conf.d/plain.conf"
	config := "server { listen 127.0.0.1:8088; location / { proxy_pass http://127.0.0.1:8787; } }\n"
	require.NoError(t, b.WriteFile(file, []byte(config), 0o644))
	b.MustRun(t, "mv", "/etc/nginx/conf.d/codex-proxy.conf", "/root/")
	b.MustRun(t, "systemctl", "start", "nginx")
	defer b.MustRun(t, "systemctl", "stop", "nginx")
	ask := func(url string, args ...string) string {
		return b.MustRun(t, append([]string{"curl", "-s", "-w", " status %{http_code}", url}, args...)...)
	}
	passed := func(path, want string) {
		t.Helper()
		for _, url := range []string{"http://127.0.0.1:8088" + path, "http://localhost:8088" + path} {
			assert.Contains(t, ask(url), want)
		}
		assert.Contains(t, ask("http://127.0.0.1:8088"+path, "-H", "Host: "+bed.FrontName), want)
	}
	passed("/v1/models", "invalid_api_key")
	assert.Contains(t, ask("http://127.0.0.1:8088/v1/models", "-H", "Authorization: Bearer "+b.Key), "status 200")
	bed.Keys(b, "revoke", "front")
	for _, path := range []string{"/v1/models", "/metrics"} {
		passed(path, "status 401")
	}
	assert.Contains(t, ask(bed.Base+"/v1/models"),
		"nobody is let in until the operator makes one: codex-proxy keys add NAME")
	bed.Keys(b, "open")
	for _, path := range []string{"/v1/models", "/v1/responses", "/metrics"} {
		passed(path, "forwarding_not_allowed")
	}
	assert.Contains(t, ask(bed.Base+"/v1/models"), "status 200")
	assert.Contains(t, ask(bed.Base+"/v1/models", "--http1.0"), "a request with HTTP/1.0 may come from elsewhere")
	b.Key = bed.AddKey(b, "front")
}

// overUnix asserts that codex-proxy listens on both sockets, runs a turn and is reloaded
// on the new one, without a key under any host name, and needs a key once there is one.
func overUnix(b *bed.Bed, t *testing.T, doc *manual.Manual) {
	const dropIn, socket = "/etc/systemd/system/codex-proxy.socket.d/unix.conf", "/run/codex-proxy-http.sock"
	require.NoError(t, b.WriteFile(dropIn, []byte(doc.File(dropIn)), 0o644))
	b.FollowManual(doc)
	assert.Equal(t, "root www-data 660\n", b.MustRun(t, "stat", "-c", "%U %G %a", socket))
	curl := func(args ...string) string {
		return b.MustRun(t, append([]string{"runuser", "-u", "www-data", "--", "curl", "-s", "--unix-socket", socket},
			args...)...)
	}
	bed.Keys(b, "revoke", "front")
	bed.Keys(b, "open")
	b.MustRun(t, "codex-proxy", "reload")
	body := bed.ChatBody("[[text by a file]]", false)
	assert.Contains(t, curl("http://"+bed.FrontName+"/v1/chat/completions", "-H", "Content-Type: application/json", "-d",
		body), "by a file")
	assert.Contains(t, curl("http://"+bed.FrontName+"/v1/models", "-H", "X-Forwarded-For: 192.0.2.1"),
		"forwarding_not_allowed")
	b.Until("ready on the loopback", bed.Ready)
	assert.Contains(t, b.MustRun(t, "curl", "-s", bed.Base+"/v1/models", "-H", "Host: "+bed.FrontName), "host_not_allowed")
	b.MustRun(t, "codex-proxy", "keys", "add", "someone")
	assert.Contains(t, curl("http://localhost/metrics"), "invalid_api_key")
}

// readTraefik reads the file for Traefik, which Debian does not have: it is TOML
// of the form that its file provider takes.
func readTraefik(t *testing.T, text string) {
	t.Helper()
	type service struct {
		LoadBalancer struct {
			ServersTransport string                                   `toml:"serversTransport"`
			Servers          []map[string]string                      `toml:"servers"`
			HealthCheck      struct{ Path, Interval, Timeout string } `toml:"healthCheck"`
		} `toml:"loadBalancer"`
	}
	var file struct {
		HTTP struct {
			Routers map[string]struct {
				Rule        string    `toml:"rule"`
				EntryPoints []string  `toml:"entryPoints"`
				Service     string    `toml:"service"`
				TLS         *struct{} `toml:"tls"`
			} `toml:"routers"`
			Services          map[string]service `toml:"services"`
			ServersTransports map[string]struct {
				ForwardingTimeouts map[string]string `toml:"forwardingTimeouts"`
			} `toml:"serversTransports"`
		} `toml:"http"`
		TLS struct {
			Certificates []map[string]string `toml:"certificates"`
		} `toml:"tls"`
	}
	decoder := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&file))
	require.Len(t, file.HTTP.Routers, 1)
	for _, router := range file.HTTP.Routers {
		require.Contains(t, file.HTTP.Services, router.Service)
		balancer := file.HTTP.Services[router.Service].LoadBalancer
		assert.Equal(t, "/readyz", balancer.HealthCheck.Path)
		assert.Len(t, balancer.Servers, 2)
		assert.Contains(t, file.HTTP.ServersTransports, balancer.ServersTransport)
		assert.NotNil(t, router.TLS)
	}
}
