package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/contract"
)

// postJSON posts a body to the proxy.
func postJSON(b *bed.Bed, t *testing.T, path, body string) (status int, header http.Header, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bed.Base+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := b.HTTP.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, res.Header, string(data)
}

// scripted posts a request for which the endpoint plays steps, and returns the answer and the request to the endpoint.
func scripted(b *bed.Bed, t *testing.T, path, body string, steps ...string) (answer string, asked upstream) {
	t.Helper()
	require.NoError(t, b.Models.Script(steps...))
	before := len(b.Models.Turns())
	status, _, answer := postJSON(b, t, path, body)
	require.Equal(t, http.StatusOK, status, answer)
	turns := b.Models.Turns()[before:]
	require.Len(t, turns, 1, answer)
	require.NoError(t, json.Unmarshal(turns[0].Body.Raw, &asked))
	return answer, asked
}

func (u upstream) tools() (names []string) {
	for _, tool := range u.Tools {
		names = append(names, tool.Name)
	}
	return names
}

const (
	messagesPath    = "/v1/messages"
	completionsPath = "/v1/completions"
)

// Names that codex keeps to itself reach the model in another form; the client sees its own names alone.
func TestToolNames(t *testing.T) {
	t.Parallel()
	b := bed.New(t, bed.Newest, bed.RealWorker+`models = ["`+reasoner+`"]`+"\n", "")
	b.Start()
	schema, err := contract.Compile()
	require.NoError(t, err)
	wire := []string{"client_mcp__files__read", "client_client_mcp__files__read", "client_mcp", "client_exec_command",
		"client_shell_command"}

	t.Run("chat", func(t *testing.T) {
		const head = `{"model":"` + reasoner + `","tools":[
			{"type":"function","function":{"name":"mcp__files__read"}},
			{"type":"function","function":{"name":"client_mcp__files__read"}},
			{"type":"function","function":{"name":"mcp"}},{"type":"function","function":{"name":"exec_command"}},
			{"type":"custom","custom":{"name":"shell_command"}}],`
		const user = `{"role":"user","content":"read them"}`
		calls := []string{`call client_mcp__files__read {"n":1}`, `call client_client_mcp__files__read {"n":2}`,
			`call client_shell_command {"input":"ls \"x\""}`, "usage 21 8 13 5"}
		answer, asked := scripted(b, t, bed.ChatPath, head+`"messages":[`+user+`]}`, calls...)
		assert.Equal(t, wire, asked.tools())
		require.NoError(t, schema.Check(contract.Completion, []byte(answer)))
		var whole struct {
			Choices []struct{ Message json.RawMessage }
		}
		require.NoError(t, json.Unmarshal([]byte(answer), &whole))
		message := string(whole.Choices[0].Message)
		for _, want := range []string{
			`"type":"function","function":{"name":"mcp__files__read","arguments":"{\"n\":1}"}`,
			`"type":"function","function":{"name":"client_mcp__files__read","arguments":"{\"n\":2}"}`,
			`"type":"custom","custom":{"name":"shell_command","input":"ls \"x\""}`,
		} {
			assert.Contains(t, message, want)
		}
		var made struct {
			ToolCalls []struct{ ID string } `json:"tool_calls"`
		}
		require.NoError(t, json.Unmarshal(whole.Choices[0].Message, &made))
		history := user + "," + message
		for _, call := range made.ToolCalls {
			history += `,{"role":"tool","tool_call_id":"` + call.ID + `","content":"done"}`
		}
		_, asked = scripted(b, t, bed.ChatPath, head+`"messages":[`+history+`]}`, "text ok")
		given := strings.Join(asked.summary(), "\n")
		for _, want := range []string{` calls client_mcp__files__read{"n":1}`,
			` calls client_client_mcp__files__read{"n":2}`, ` calls client_shell_command{"input":"ls \"x\""}`} {
			assert.Contains(t, given, want)
		}

		answer, _ = scripted(b, t, bed.ChatPath, head+`"stream":true,"messages":[`+user+`]}`, calls...)
		for _, want := range []string{`"type":"function","function":{"name":"mcp__files__read","arguments":""}`,
			`{"index":0,"function":{"arguments":"{\"n\":1}"}}`, `"function":{"name":"client_mcp__files__read"`,
			`"type":"custom","custom":{"name":"shell_command","input":""}`, `{"index":2,"custom":{"input":"ls \"x\""}}`} {
			assert.Contains(t, answer, want)
		}
		for _, frame := range strings.Split(answer, "\n") {
			if data, ok := strings.CutPrefix(frame, "data: {"); ok {
				require.NoError(t, schema.Check(contract.Chunk, []byte("{"+data)))
			}
		}
		_, asked = scripted(b, t, bed.ChatPath, head+`"tool_choice":{"type":"function","function":{"name":"mcp__files__read"}},`+
			`"messages":[`+user+`]}`, "text ok")
		assert.Equal(t, wire[:1], asked.tools())
		assert.Contains(t, asked.summary()[1], "the function client_mcp__files__read.")
	})

	t.Run("functions", func(t *testing.T) {
		answer, asked := scripted(b, t, bed.ChatPath, `{"model":"`+reasoner+`","functions":[{"name":"mcp__f"},{"name":"g"}],
			"function_call":{"name":"mcp__f"},"messages":[{"role":"user","content":"u"},
			{"role":"assistant","content":null,"function_call":{"name":"mcp__f","arguments":"{}"}},
			{"role":"function","name":"mcp__f","content":"out"}]}`, `call client_mcp__f {"a":1}`)
		assert.Contains(t, answer, `"function_call":{"name":"mcp__f","arguments":"{\"a\":1}"}`)
		assert.Equal(t, []string{"client_mcp__f"}, asked.tools())
		assert.Contains(t, asked.summary()[1], "calls client_mcp__f{}")
	})

	t.Run("responses", func(t *testing.T) {
		const head = `{"model":"` + reasoner + `","tools":[{"type":"function","name":"mcp__files__read"},
			{"type":"function","name":"client_mcp__files__read"},{"type":"function","name":"mcp"},
			{"type":"function","name":"exec_command"},{"type":"custom","name":"shell_command"}],`
		const call = `call client_mcp__files__read {"n":1}`
		answer, asked := scripted(b, t, bed.ResponsesPath, head+`"input":"read"}`, call, "usage 21 8 13 5")
		assert.Equal(t, wire, asked.tools())
		assert.Contains(t, answer, `"name":"mcp__files__read","arguments":"{\"n\":1}"`)
		assert.NotContains(t, answer, "client_mcp__files__read\",\"arg")
		var first struct {
			ID     string
			Output []struct {
				CallID string `json:"call_id"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(answer), &first))
		result := `"input":[{"type":"function_call_output","call_id":"` + first.Output[0].CallID + `","output":"done"}]`
		_, asked = scripted(b, t, bed.ResponsesPath, head+`"previous_response_id":"`+first.ID+`",`+result+`}`, "text ok")
		assert.Contains(t, strings.Join(asked.summary(), "\n"), `calls client_mcp__files__read{"n":1}`)

		answer, _ = scripted(b, t, bed.ResponsesPath, head+`"stream":true,"input":"read"}`, call)
		assert.Contains(t, answer, `"name":"mcp__files__read"`)
		assert.NotContains(t, answer, `"name":"client_mcp__files__read","arguments":"{\"n`)
	})

	t.Run("kept threads", func(t *testing.T) {
		const body = `{"model":"` + reasoner + `","tools":[{"type":"function","function":{"name":"mcp__a"}}],"messages":[
			{"role":"user","content":"once"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1",
			"type":"function","function":{"name":"mcp__a","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"call_1","content":"done"}`
		_, _ = scripted(b, t, bed.ChatPath, body+`]}`, "text ok", "usage 21 8 13 5")
		key := bed.CacheKey(t, bed.LastTurn(b.Models).Body.Raw)
		_, asked := scripted(b, t, bed.ChatPath, body+`,{"role":"assistant","content":"ok"},{"role":"user","content":"again"}]}`,
			"text ok")
		assert.Equal(t, key, bed.CacheKey(t, bed.LastTurn(b.Models).Body.Raw), "the conversation continues in its thread")
		assert.Contains(t, asked.summary(), "call_1 calls client_mcp__a{}")
	})
}
