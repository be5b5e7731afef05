package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/contract"
	"codex-proxy/test/machine"
)

// cell is a fault in one kind of request, for a program that uses an SDK.
type cell struct {
	ID     string `json:"id"` // of its requests
	API    string `json:"api"`
	Prompt string `json:"prompt"`
	Stream bool   `json:"stream"`
}

// vendorLibrary is a library of the vendor of an API.
type vendorLibrary struct {
	name    string
	apis    []string // that it speaks
	ask     func(t *testing.T, cells []cell) []string
	classOf func(status int) string // of an error with a status
	broken  string                  // the class of an error inside a stream
}

// raises is the class that the library raises for the fault, "" for none, and how often it sends the request, with one
// retry allowed. An error inside a stream has no status, and no library sends its request again.
func (c faultCase) raises(by vendorLibrary) (class string, tries int) {
	switch {
	case c.status == http.StatusOK:
		return "", 1
	case c.begun():
		return by.broken, 1
	}
	tries = 2
	if c.status < http.StatusTooManyRequests || c.code == "upstream_unauthorized" || c.code == "usage_limit_reached" {
		tries = 1 // by the status, or by X-Should-Retry
	}
	return by.classOf(c.status), tries
}

// classOf is the class of an error with a status.
func classOf(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "BadRequestError"
	case http.StatusNotFound:
		return "NotFoundError"
	case http.StatusTooManyRequests:
		return "RateLimitError"
	default:
		return "InternalServerError"
	}
}

// classOfAnthropic is the class of an error of Anthropic's libraries, which have one for each status.
func classOfAnthropic(status int) string {
	switch status {
	case http.StatusServiceUnavailable:
		return "OverloadedError"
	case http.StatusGatewayTimeout:
		return "GatewayTimeoutError"
	default:
		return classOf(status)
	}
}

// The newest libraries of OpenAI and Anthropic raise the error of each fault, and send a request again only if that can
// help.
func TestFaultsInSDKs(t *testing.T) {
	t.Parallel()
	binds, node := bed.NodeClients(t)
	venvs := bed.PythonVenvs(t)
	b := bed.New(t, "trixie", bed.RealWorker, "idle_timeout = \"10s\"\nmax_inflight = 64\n", binds...)
	b.Start()
	openAIs, anthropics := []string{contract.Chat.Name, contract.Responses.Name}, []string{contract.Messages.Name}
	inNode := func(t *testing.T, cells []cell) []string { return nodeRaises(b, t, node, cells) }
	inPython := func(t *testing.T, cells []cell) []string {
		return pythonRaises(b, t, &bed.Python{Bed: b, Venvs: venvs, Key: "none"}, cells)
	}
	for _, by := range []vendorLibrary{
		{"openai-go", openAIs, func(t *testing.T, cells []cell) []string { return goRaises(b, t, cells) }, classOf, "APIError"},
		{"openai-npm", openAIs, inNode, classOf, "APIError"},
		{"openai-python", openAIs, inPython, classOf, "APIError"},
		{"anthropic-npm", anthropics, inNode, classOfAnthropic, "APIError"},
		{"anthropic-python", anthropics, inPython, classOfAnthropic, "APIStatusError"},
	} {
		t.Run(by.name, func(t *testing.T) { judgeRaised(b, t, by) })
	}
}

func nodeRaises(b *bed.Bed, t *testing.T, node string, cells []cell) []string {
	t.Helper()
	var in, out bytes.Buffer
	require.NoError(t, json.NewEncoder(&in).Encode(cells))
	ctx, cancel := context.WithTimeout(t.Context(), bed.ClientBound)
	defer cancel()
	require.NoError(t, b.Exec(ctx, machine.Exec{Args: []string{node, bed.ClientsDir + "/cases/faults.mjs"},
		Env: []string{"API_KEY=none"}, Stdin: &in, Stdout: &out, Stderr: &out}), out.String())
	return classes(t, out.Bytes())
}

// judgeRaised has a library meet all faults, and judges what it raises.
func judgeRaised(b *bed.Bed, t *testing.T, by vendorLibrary) {
	var cases []faultCase
	var cells []cell
	for _, c := range faultCases() {
		if c.way == socket || !slices.Contains(by.apis, c.api.Name) {
			continue
		}
		cases = append(cases, c)
		cells = append(cells, cell{fmt.Sprintf("%s-%d", by.name, len(cells)), c.api.Name,
			c.prompt(by.name + "/" + c.title()), c.way == streamed})
	}
	raised := by.ask(t, cells)
	require.Len(t, raised, len(cases))
	requests := map[any][]map[string]any{}
	for _, e := range b.Entries(t, "CODEX_EVENT=request") {
		requests[e["CODEX_REQUEST_ID"]] = append(requests[e["CODEX_REQUEST_ID"]], e)
	}
	for i, c := range cases {
		t.Run(c.title(), func(t *testing.T) {
			class, tries := c.raises(by)
			if sent := requests[cells[i].ID]; c.opens() && len(sent) > 0 && openedLate(t, sent[len(sent)-1]) {
				class, tries = "APIError", len(sent)
			}
			assert.Equal(t, class, raised[i])
			assert.Len(t, bed.TurnsWith(b, `"`+by.name+"/"+c.title()+":"), tries, "requests at the endpoint")
		})
	}
}

// openedLate reports whether the journal's entry is of a stream that began with its first events, after a silence.
func openedLate(t *testing.T, request map[string]any) bool {
	t.Helper()
	first, ok := request["CODEX_TTFB_MS"].(string)
	return ok && request["CODEX_STATUS"] == "200" && bed.Seconds(t, first) >= float64(untilOpened.Milliseconds())
}

func classes(t *testing.T, data []byte) (names []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal(data, &names), "%s", data)
	return names
}

func pythonRaises(b *bed.Bed, t *testing.T, p *bed.Python, cells []cell) []string {
	t.Helper()
	script, err := filepath.Abs("../../clients/python/cases/faults.py")
	require.NoError(t, err)
	var in, out, logged bytes.Buffer
	require.NoError(t, json.NewEncoder(&in).Encode(cells))
	ctx, cancel := context.WithTimeout(t.Context(), bed.ClientBound)
	defer cancel()
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, filepath.Join(p.Venvs, "newest", "bin", "python"), script)
	cmd.Dir, cmd.Env = home, p.Environment(home, "newest")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &logged
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	require.NoError(t, b.StartCommand(cmd))
	require.NoError(t, cmd.Wait(), logged.String())
	return classes(t, out.Bytes())
}

// goRaises is openai-go, which has one class: an error with a status has the name of that status's class.
func goRaises(b *bed.Bed, t *testing.T, cells []cell) []string {
	sdk := openai.NewClient(option.WithBaseURL(bed.Base+"/v1"), option.WithAPIKey("none"), option.WithHTTPClient(b.HTTP),
		option.WithMaxRetries(1))
	ctx, cancel := context.WithTimeout(t.Context(), bed.ClientBound)
	defer cancel()
	names := make([]string, len(cells))
	var g errgroup.Group
	for i, c := range cells {
		g.Go(func() error {
			err := goAsk(ctx, sdk, c)
			var failed *openai.Error
			switch {
			case errors.As(err, &failed):
				names[i] = classOf(failed.StatusCode)
			case err != nil:
				names[i] = "APIError"
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	return names
}

func goAsk(ctx context.Context, sdk openai.Client, c cell) error {
	id := option.WithHeader("X-Request-Id", c.ID)
	chat := openai.ChatCompletionNewParams{
		Model: bed.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(c.Prompt)},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(
			openai.FunctionDefinitionParam{Name: "get_weather", Parameters: bed.WeatherSchema})},
	}
	response := prompt(c.Prompt)
	response.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", bed.WeatherSchema, false)}
	var err error
	switch {
	case c.API == contract.Chat.Name && c.Stream:
		err = drained(sdk.Chat.Completions.NewStreaming(ctx, chat, id))
	case c.API == contract.Chat.Name:
		_, err = sdk.Chat.Completions.New(ctx, chat, id)
	case c.Stream:
		err = drained(sdk.Responses.NewStreaming(ctx, response, id))
	default:
		_, err = sdk.Responses.New(ctx, response, id)
	}
	return err
}

func drained[T any](stream *ssestream.Stream[T]) error {
	for stream.Next() {
	}
	return errors.Join(stream.Err(), stream.Close())
}
