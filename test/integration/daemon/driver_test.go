package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// driver drives the browser, by WebDriver (https://www.w3.org/TR/webdriver2/).
type driver struct {
	b    *bed.Bed
	path string
}

func startDriver(b *bed.Bed) *driver {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-ec", "HOME=/root setsid chromedriver --port=9515 --verbose >/run/driver.log 2>&1 </dev/null &")
	d := &driver{b: b}
	b.T.Cleanup(func() {
		if b.T.Failed() {
			log, _, _ := b.Run(context.Background(), "tail", "-c", "6000", "/run/driver.log")
			b.T.Log(log)
		}
	})
	await.True(b.T, func() bool {
		res, err := b.HTTPClient().Get("http://127.0.0.1:9515/status")
		return err == nil && res.Body.Close() == nil
	}, bed.Bound, "chromedriver does not listen")
	var session struct {
		ID string `json:"sessionId"`
	}
	d.call(http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName": "chrome", "acceptInsecureCerts": true, "goog:loggingPrefs": map[string]string{"browser": "ALL"},
		"goog:chromeOptions": map[string]any{"binary": "/usr/bin/chromium", "args": []string{"--headless=new", "--no-sandbox",
			"--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"}},
	}}}, &session)
	d.path = "/" + session.ID
	d.call(http.MethodPost, "/timeouts", map[string]int{"script": int(bed.Bound.Milliseconds()), "implicit": int(bed.Bound.Milliseconds())}, nil)
	b.T.Cleanup(func() { d.call(http.MethodDelete, "", nil, nil) })
	return d
}

// call makes one call of the session; value takes its value, as text where that is wanted.
func (d *driver) call(method, path string, body, value any) {
	d.b.T.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.b.T.Context()), bed.Bound)
	defer cancel()
	var text io.Reader
	if method == http.MethodPost {
		raw, err := json.Marshal(body)
		require.NoError(d.b.T, err)
		text = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:9515/session"+d.path+path, text)
	require.NoError(d.b.T, err)
	res, err := d.b.HTTPClient().Do(req)
	require.NoError(d.b.T, err)
	defer res.Body.Close()
	var answer struct {
		Value json.RawMessage `json:"value"`
	}
	require.NoError(d.b.T, json.NewDecoder(res.Body).Decode(&answer))
	require.Equal(d.b.T, http.StatusOK, res.StatusCode, "%s %s: %s", method, path, answer.Value)
	switch value := value.(type) {
	case nil:
	case *string:
		*value = string(answer.Value)
	default:
		require.NoError(d.b.T, json.Unmarshal(answer.Value, value))
	}
}

func (d *driver) open(url string) {
	d.b.T.Helper()
	d.call(http.MethodPost, "/url", map[string]string{"url": url}, nil)
}

func (d *driver) script(text string) (value any) {
	d.b.T.Helper()
	d.call(http.MethodPost, "/execute/sync", map[string]any{"script": text, "args": []any{}}, &value)
	return value
}

// until waits for a change of the page after which an expression holds.
func (d *driver) until(expression string) {
	d.b.T.Helper()
	d.call(http.MethodPost, "/execute/async", map[string]any{"args": []any{}, "script": `
const done = arguments[0], holds = () => Boolean(` + expression + `);
const look = new MutationObserver(() => { if (holds()) { look.disconnect(); done(true); } });
look.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
if (holds()) { look.disconnect(); done(true); }`}, nil)
}

func (d *driver) element(selector string) string {
	d.b.T.Helper()
	var found map[string]string
	d.call(http.MethodPost, "/element", map[string]string{"using": "css selector", "value": selector}, &found)
	for _, id := range found {
		return id
	}
	return ""
}

func (d *driver) click(selector string) {
	d.b.T.Helper()
	d.call(http.MethodPost, "/element/"+d.element(selector)+"/click", map[string]any{}, nil)
}

func (d *driver) keys(selector, text string) {
	d.b.T.Helper()
	d.call(http.MethodPost, "/element/"+d.element(selector)+"/value", map[string]string{"text": text}, nil)
}
