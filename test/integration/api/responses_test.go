package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// A stored response survives every restart.
func TestResponsesSurvive(t *testing.T) { bed.EitherSuite(t, testResponsesSurvive) }

func testResponsesSurvive(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	client := b.Client()
	ask := func(previous, input string) *responses.Response {
		t.Helper()
		params := responses.ResponseNewParams{Model: bed.Model,
			Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(input)}}
		if previous != "" {
			params.PreviousResponseID = openai.String(previous)
		}
		got, err := client.Responses.New(t.Context(), params)
		require.NoError(t, err)
		require.Equal(t, responses.ResponseStatusCompleted, got.Status)
		return got
	}
	require.NoError(t, b.Models.Script("reasoning hm", "text one", "usage 21 8 13 5"))
	first := ask("", "q1")
	assert.Equal(t, "one", first.OutputText())
	assert.Equal(t, int64(34), first.Usage.TotalTokens)

	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	b.HTTP.CloseIdleConnections() // they belong to the old process
	require.NoError(t, b.Models.Script("text two"))
	second := ask(first.ID, "q2")
	bed.AssertGiven(t, bed.LastTurn(b.Models), "q1", "encrypted-", "one", "q2")

	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	require.NoError(t, b.Models.Script("text three"))
	third := ask(second.ID, "q3")
	bed.AssertGiven(t, bed.LastTurn(b.Models), "q1", "encrypted-", "one", "q2", "two", "q3")

	got, err := client.Responses.Get(t.Context(), third.ID, responses.ResponseGetParams{})
	require.NoError(t, err)
	assert.JSONEq(t, third.RawJSON(), got.RawJSON())
	items := client.Responses.InputItems.ListAutoPaging(t.Context(), third.ID,
		responses.InputItemListParams{Limit: openai.Int(2)})
	count := 0
	for items.Next() {
		count++
	}
	require.NoError(t, items.Err())
	assert.Equal(t, 6, count)
	require.NoError(t, client.Responses.Delete(t.Context(), first.ID))
	_, err = client.Responses.Get(t.Context(), first.ID, responses.ResponseGetParams{})
	var gone *openai.Error
	require.ErrorAs(t, err, &gone)
	assert.Equal(t, http.StatusNotFound, gone.StatusCode)
	assert.Equal(t, "0700 codex-proxy codex-proxy",
		strings.TrimSpace(b.MustRun(t, "stat", "-c", "0%a %U %G", "/var/lib/codex-proxy")))
	assert.Equal(t, "0600", strings.TrimSpace(b.MustRun(t, "stat", "-c", "0%a", "/var/lib/codex-proxy/responses.db")))
}

// The codex CLI runs a turn through the proxy, with a tool call of the model, over both
// transports. It treats models in three ways: unknown ones get functions, gpt-5.5 also
// a patch tool of free text, and the newer ones a single tool that runs JavaScript.
func TestCodexCLI(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker+"models = [\"gpt-5.5\", \"gpt-5.6-sol\"]\n", "")
	b.Start()
	for _, sockets := range []bool{false, true} {
		t.Run(fmt.Sprintf("silence/websockets=%t", sockets), func(t *testing.T) { codexWaits(b, t, sockets) })
	}
	for _, tc := range []struct{ model, call, tool, result string }{
		{bed.Model, `call client_exec_command {"cmd":"echo said-by-$((40+2))"}`, "client_exec_command", "said-by-42"},
		{"gpt-5.5", `call apply_patch {"input":"*** Begin Patch\n*** Add File: /tmp/patched\n+hello\n*** End Patch\n"}`, "apply_patch", "Success"},
		{"gpt-5.5", `call tool_search {"query":"agent"}`, "tool_search", "The search has found"},
		{"gpt-5.6-sol", `call functions__exec {"input":"const r = await tools.exec_command({cmd: 'echo said-by-$((40+2))'}); text(r.output)"}`, "functions__exec", "said-by-42"},
	} {
		for _, sockets := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%s/websockets=%t", tc.model, tc.tool, sockets), func(t *testing.T) {
				home := fmt.Sprintf("/root/cli-%s-%s-%t", tc.model, tc.tool, sockets)
				require.NoError(t, b.WriteFile(home+"/config.toml", fmt.Appendf(nil, bed.CliConfig, tc.model, sockets),
					0o600))
				require.NoError(t, b.Models.Script(tc.call, "usage 21 8 13 5"))
				require.NoError(t, b.Models.Script("reasoning hm", "text the tool ", "text answered"))
				before := len(b.Models.Turns())
				connections := countSockets(b)
				out, talk := codexExec(b, home, "run something")
				assert.Contains(t, out, "the tool answered", talk)
				turns := b.Models.Turns()[before:]
				require.Len(t, turns, 2, talk)
				bed.AssertGiven(t, turns[0], "run something", `"name":"`+tc.tool+`"`)
				bed.AssertGiven(t, turns[1], "run something", tc.tool, tc.result)
				closed := func() bool { return countSockets(b) > connections }
				if sockets {
					assert.Eventually(t, closed, bed.Bound, 50*time.Millisecond)
				} else {
					assert.False(t, closed())
				}
			})
		}
	}
}

// silenceOfTheModel is longer than the time after which a stream sends its first events.
const silenceOfTheModel = "delay 4s"

// The codex CLI takes the first events of a response before a long silence of the model.
func codexWaits(b *bed.Bed, t *testing.T, sockets bool) {
	home := fmt.Sprintf("/root/cli-waits-%t", sockets)
	require.NoError(t, b.WriteFile(home+"/config.toml", fmt.Appendf(nil, bed.CliConfig, bed.Model, sockets), 0o600))
	require.NoError(t, b.Models.Script(silenceOfTheModel, "text after a while"))
	before := len(b.Models.Turns())
	connections := countSockets(b)
	out, talk := codexExec(b, home, "think")
	assert.Contains(t, out, "after a while", talk)
	assert.Len(t, b.Models.Turns()[before:], 1, talk)
	if sockets { // later cases count those lines
		assert.Eventually(t, func() bool { return countSockets(b) > connections }, bed.Bound, 50*time.Millisecond)
	}
}

// countSockets counts the WebSockets that have ended.
func countSockets(b *bed.Bed) int {
	b.T.Helper()
	return strings.Count(b.UnitJournal(bed.ProxyUnit), "status=101")
}

// codexExec runs the CLI inside the machine.
func codexExec(b *bed.Bed, home, prompt string) (stdout, stderr string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), 2*bed.Bound)
	defer cancel()
	stdout, stderr, err := b.Run(ctx, "env", "CODEX_HOME="+home, bed.CodexDir+"/bin/codex", "exec",
		"--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", "/tmp", prompt)
	require.NoError(b.T, err, "%s\n%s\n%s", stdout, stderr, b.UnitJournal(bed.ProxyUnit))
	return stdout, stderr
}

// The official SDK uses responses as it does those of OpenAI: streamed with a tool, and
// over a WebSocket.
func TestResponsesSDK(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker, "")
	b.Start()
	client := b.Client()
	weather := responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
		Name: "weather", Strict: openai.Bool(false),
		Parameters: map[string]any{"type": "object",
			"properties": map[string]any{"city": map[string]any{"type": "string"}}},
	}}

	kept := ""
	t.Run("streamed tool loop", func(t *testing.T) {
		require.NoError(t, b.Models.Script("reasoning hm", "text I ask.", `call weather {"city":"Paris"}`,
			`call weather {"city":"Rome"}`, "usage 21 8 13 5"))
		stream := client.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{
			Model: bed.Model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("weather?")},
			Tools: []responses.ToolUnionParam{weather},
		})
		var done responses.Response
		for stream.Next() {
			if e := stream.Current(); e.Type == "response.completed" {
				done = e.Response
			}
		}
		require.NoError(t, stream.Err())
		kept = done.ID
		var outputs responses.ResponseInputParam
		for _, item := range done.Output {
			if item.Type == "function_call" {
				output := responses.ResponseInputItemParamOfFunctionCallOutput("sunny: " +
					item.AsFunctionCall().Arguments)
				output.OfFunctionCallOutput.CallID = openai.String(item.CallID)
				outputs = append(outputs, output)
			}
		}
		require.Len(t, outputs, 2)
		require.NoError(t, b.Models.Script("text both sunny"))
		before := len(b.Models.Turns())
		answer, err := client.Responses.New(t.Context(), responses.ResponseNewParams{
			Model: bed.Model, PreviousResponseID: openai.String(done.ID), Tools: []responses.ToolUnionParam{weather},
			Input: responses.ResponseNewParamsInputUnion{OfInputItemList: outputs},
		})
		require.NoError(t, err)
		assert.Equal(t, "both sunny", answer.OutputText())
		require.Len(t, b.Models.Turns(), before+1, "nothing was asked behind the client's back")
		bed.AssertGiven(t, bed.LastTurn(b.Models), "weather?", "encrypted-", "I ask.", "Paris", "Rome", "sunny: ", "Paris",
			"sunny: ", "Rome")
	})

	t.Run("websocket", func(t *testing.T) {
		conn, err := client.Responses.Connect(t.Context(), responses.ResponseConnectionOptions{})
		require.NoError(t, err)
		defer conn.Close()
		receive := func() responses.Response {
			for {
				e, err := conn.Recv(t.Context())
				require.NoError(t, err)
				if e.Type == "response.completed" {
					return e.AsResponseCompleted().Response
				}
			}
		}
		require.NoError(t, b.Models.Script("text one"))
		require.NoError(t, conn.SendRaw(t.Context(),
			[]byte(`{"type":"response.create","model":"`+bed.Model+`","store":false,"input":"q1"}`)))
		first := receive()
		assert.Equal(t, "one", first.OutputText())

		// A reload finishes the response in flight, and then closes the socket.
		require.NoError(t, b.Models.Script("text half ", "gate reloaded", "text whole"))
		require.NoError(t, conn.SendRaw(t.Context(),
			[]byte(`{"type":"response.create","model":"`+bed.Model+`","store":false,"previous_response_id":"`+first.ID+
				`","input":"q2"}`)))
		for e, err := conn.Recv(t.Context()); e.Type != "response.output_text.delta"; e, err = conn.Recv(t.Context()) {
			require.NoError(t, err)
		}
		b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
		b.Models.Release("reloaded")
		assert.Equal(t, "half whole", receive().OutputText())
		_, err = conn.Recv(t.Context())
		assert.ErrorContains(t, err, "StatusGoingAway")
		got, err := client.Responses.Get(t.Context(), kept, responses.ResponseGetParams{})
		require.NoError(t, err, "what one process has stored, the next one has")
		assert.Equal(t, "I ask.", got.OutputText())
	})
}
