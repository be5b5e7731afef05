package admission_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// post is the head of a chat request.
const post = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

// malformed makes one request in one of the ways in which bodies go wrong.
func malformed(random *rand.Rand) []byte {
	valid := []byte(apitest.Hello(apitest.Streaming + `"temperature":1,"stop":["x"],`))
	sized := func(body []byte) []byte {
		return append(fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n", post, len(body)), body...)
	}
	noise := make([]byte, random.IntN(300))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	switch random.IntN(6) {
	case 0: // noise
		return sized(noise)
	case 1: // startEnded JSON
		return sized(valid[:random.IntN(len(valid))])
	case 2: // one byte changed
		body := bytes.Clone(valid)
		body[random.IntN(len(body))] = byte(random.Uint32())
		return sized(body)
	case 3: // deep
		return sized(bytes.Repeat([]byte{'['}, 1+random.IntN(100_000)))
	case 4: // promises more than it brings
		return append(fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n", post, len(valid)+1+random.IntN(100)), valid...)
	default: // broken chunks
		return append(fmt.Appendf(nil, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n", post, random.IntN(1000)), noise...)
	}
}

func TestMalformedBodies(t *testing.T) {
	const count = 200
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")})
	r.HaveReadings(t) // until then, goroutines of the connection to the worker begin
	before, descriptors := goleak.IgnoreCurrent(), openFiles(t)
	random := rand.New(rand.NewPCG(1, 2))
	statuses := map[int]int{}
	for i := range count {
		request := malformed(random)
		status, answer := r.Exchange(t, request)
		statuses[status]++
		if status >= 400 {
			assert.Contains(t, []int{400, 404}, status, "request %d: %q: %s", i, request, answer)
			apitest.Failure(t, answer)
		} else {
			assert.Contains(t, answer, "[DONE]", "request %d: %q", i, request)
		}
	}
	t.Logf("statuses: %v", statuses)
	assert.Greater(t, statuses[400], count/2)
	r.AwaitConnections(t, 0)
	assert.LessOrEqual(t, openFiles(t), descriptors, "a test before may still have been closing one")
	assert.NoError(t, goleak.Find(before))
	assert.Zero(t, r.Pool.Inflight())
	assert.NotContains(t, r.Log.String(), `"level":"ERROR"`)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// A body that does not come holds a connection for a minute, not for ever,
// whether a handler waits for it or nobody does.
func TestBodiesThatDoNotCome(t *testing.T) {
	for name, tc := range map[string]struct {
		head   string
		status int
		code   string
	}{
		"read by a handler": {post, 400, "body_timeout"},
		"read by nobody":    {"PUT /livez HTTP/1.1\r\nHost: localhost\r\n", 405, "method_not_allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, leave := apitest.Piped(t)
				began := time.Now()
				_, err := fmt.Fprintf(client, "%sContent-Length: 10\r\n\r\n", tc.head)
				require.NoError(t, err)
				everything, err := io.ReadAll(client)
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(began), 2*time.Minute)
				resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(everything)), nil)
				require.NoError(t, err)
				defer resp.Body.Close()
				assert.Equal(t, tc.status, resp.StatusCode)
				assert.Equal(t, tc.code, apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
				leave()
			})
		})
	}
}

// An answer that nobody reads holds a connection for the idle timeout.
func TestAnswersThatNobodyReads(t *testing.T) {
	for _, head := range []string{
		"GET /livez", "GET /readyz", "GET /healthz", "GET /metrics", "OPTIONS /v1/models", "GET /nowhere",
		"PUT /livez", "GET /v1/models", "GET /v1/responses/resp_1",
	} {
		t.Run(head, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, leave := apitest.Piped(t)
				require.NoError(t, client.SetWriteDeadline(time.Now().Add(2*time.Hour)))
				_, err := io.WriteString(client, strings.Repeat(head+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000))
				assert.ErrorIs(t, err, io.ErrClosedPipe, "the server has closed it")
				require.NoError(t, client.Close())
				leave()
			})
		})
	}
}

// What would make codex hang up, or keep silent, comes to it in a form that it
// takes: the fake does as codex does.
func TestWhatCodexCannotRead(t *testing.T) {
	var tools, schema, items string
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		tools, schema, items = fmt.Sprintf("%s", turn.Request.DynamicTools), string(turn.Request.OutputSchema),
			fmt.Sprintf("%s", turn.Request.Items)
		return appservertest.Reply("yes")(ctx, turn)
	}})
	for _, bad := range []string{"\xff", `\udc00`} {
		parameters := `{"type":"object","properties":{},"description":"` + bad + `"}`
		for path, body := range map[string]string{
			"/v1/chat/completions": `{"model":"demo","messages":[{"role":"user","content":"` + bad + `"}],"tools":[{"type":"function","function":{"name":"f","parameters":` + parameters + `}}],
				"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","required":[],"additionalProperties":false,"properties":{},"description":"` + bad + `"}}}}`,
			"/v1/responses": `{"model":"demo","input":[{"role":"user","content":"` + bad + `"}],"tools":[{"type":"function","name":"f","parameters":` + parameters + `}],
				"text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":{"type":"object","required":[],"additionalProperties":false,"properties":{},"description":"` + bad + `"}}}}`,
		} {
			resp := r.Do(t, http.MethodPost, path, body)
			answer := apitest.Text(t, resp)
			assert.Equal(t, http.StatusOK, resp.StatusCode, answer)
			assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
			assert.True(t, utf8.ValidString(answer))
			for _, got := range []string{tools, schema, items} {
				assert.Regexp(t, `\x{fffd}|\\ufffd`, got)
			}
		}
	}
}
