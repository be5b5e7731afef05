package anthropic

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
)

// body is a request with these members beside the required ones, which they may replace.
func body(t testing.TB, members string) []byte {
	t.Helper()
	all := map[string]json.RawMessage{"model": json.RawMessage(`"claude-x"`), "max_tokens": json.RawMessage(`100`),
		"messages": json.RawMessage(`[{"role":"user","content":"Hello"}]`)}
	require.NoError(t, json.Unmarshal([]byte("{"+members+"}"), &all), members)
	data, err := json.Marshal(all)
	require.NoError(t, err)
	return data
}

func messages(list string) string { return `"messages":[` + list + `]` }

func user(content string) string { return `{"role":"user","content":` + content + `}` }

func assistant(content string) string { return `{"role":"assistant","content":` + content + `}` }

func decoded(t testing.TB, members string) *MessageRequest {
	t.Helper()
	req, err := DecodeMessage(body(t, members))
	require.NoError(t, err)
	return req
}

// pixel is a png of 1 × 1 pixels in base64.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

const (
	use    = `{"type":"tool_use","id":"toolu_1","name":"f","input":{"a": 1}}`
	result = `{"type":"tool_result","tool_use_id":"toolu_1","content":"done"}`
)

func TestSystem(t *testing.T) {
	for members, want := range map[string][]string{
		``:                     nil,
		`"system":null`:        nil,
		`"system":""`:          nil,
		`"system":"Be brief."`: {"Be brief."},
		`"system":[]`:          nil,
		`"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"b"}]`:        {"a", "b"},
		`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.0; cch=00000;"},{"type":"text","text":"b"}]`: {"b"},
	} {
		assert.Equal(t, want, decoded(t, members).System, members)
	}
}

func TestBlocks(t *testing.T) {
	text := func(text string) BlockParam { return BlockParam{Type: BlockText, Text: text} }
	for _, c := range []struct {
		content string
		want    []BlockParam
	}{
		{`"Hello"`, []BlockParam{text("Hello")}},
		{`[{"type":"text","text":"a","cache_control":{"type":"ephemeral"},"citations":null},{"type":"text","text":"b"}]`,
			[]BlockParam{text("a"), text("b")}},
		{`[{"type":"text","text":""},{"type":"text","text":"b"}]`, []BlockParam{text("b")}},
		{`[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"Long ago"},"title":"A tale",
			"context":"for\nchildren","citations":{"enabled":true}}]`,
			[]BlockParam{text("[document: A tale]\n[context: for children]\nLong ago\n[end of the document: A tale]")}},
		{`[{"type":"document","title":null,"source":{"type":"content","content":"abc"}}]`,
			[]BlockParam{text("[document: untitled]\nabc\n[end of the document: untitled]")}},
		{`[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]`,
			[]BlockParam{text("[document: untitled]\n"), text("a"), text("b"), text("\n[end of the document: untitled]")}},
		{`[{"type":"search_result","source":"https://a.example/b","title":"B","content":[{"type":"text","text":"found"}]}]`,
			[]BlockParam{text("[search result: B, https://a.example/b]\nfound\n[end of the search result]")}},
	} {
		req := decoded(t, messages(user(c.content)))
		require.Len(t, req.Messages, 1)
		for i := range req.Messages[0].Blocks {
			req.Messages[0].Blocks[i].At = ""
		}
		assert.Equal(t, c.want, req.Messages[0].Blocks, c.content)
	}
}

func TestLongTitle(t *testing.T) {
	long := strings.Repeat("é ", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	title := oneLine(long)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	assert.True(t, strings.HasPrefix(title, "é é é "), title)
}

func TestImages(t *testing.T) {
	const png = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pixel + `"}}`
	const escaped = `{"type":"image","source":{"media_type":"image/jpeg","type":"base64","data":"iVBORw0KGgoAAAANSUhEU` +
		`gAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}`
	const remote = `{"type":"image","source":{"type":"url","url":"https://a.example/b.png"}}`
	req := decoded(t, messages(user(`[`+png+`,`+escaped+`]`)+`,`+
		assistant(`[`+use+`]`)+`,`+
		user(`[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"seen"},`+remote+`]}]`)))
	images := req.Images()
	require.Len(t, images, 3)
	assert.Equal(t, "messages.0.content.0.source", images[0].At)
	assert.Equal(t, "data:image/png;base64,"+pixel, images[0].Image.URL)
	assert.Equal(t, images[0].Image.URL, images[1].Image.URL, "the type of an image is that of its data")
	assert.Equal(t, "messages.2.content.0.content.1.source", images[2].At)
	assert.True(t, images[2].Image.Remote())
}

func TestConversation(t *testing.T) {
	req := decoded(t, messages(strings.Join([]string{
		user(`"What is it?"`),
		assistant(`[{"type":"thinking","thinking":"I look.","signature":"sig"},{"type":"redacted_thinking","data":"enc"},
			{"type":"text","text":"I look."},` + use + `,{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]`),
		user(`[{"type":"text","text":"Here."},` + result + `]`),
		`{"role":"system","content":"Be brief."}`,
		assistant(`"So be it."`),
		user(`"Thanks."`),
	}, ",")))
	assert.Equal(t, []string{"max_tokens", "messages.server_tool_use"}, req.Ignored)
	require.Len(t, req.Messages, 6)
	assert.Equal(t, []BlockParam{
		{Type: BlockThinking, At: "messages.1.content.0", Text: "I look.", Signature: "sig"},
		{Type: BlockThinking, At: "messages.1.content.1", Signature: "enc"},
		{Type: BlockText, At: "messages.1.content.2", Text: "I look."},
		{Type: BlockToolUse, At: "messages.1.content.3",
			Call: &clienttool.Call{ID: "toolu_1", Name: "f", Arguments: `{"a":1}`}},
	}, req.Messages[1].Blocks)
	assert.Equal(t, []BlockParam{
		{Type: BlockToolResult, At: "messages.2.content.1", CallID: "toolu_1",
			Parts: []media.Part{{Text: "done", At: "messages.2.content.1.content"}}},
		{Type: BlockText, At: "messages.2.content.0", Text: "Here."},
	}, req.Messages[2].Blocks, "results come first")
	assert.Equal(t, "system", req.Messages[3].Role)
}

// A tool of the client can read a PDF at any time: the conversation goes on, and the model knows why it has no text.
func TestPDFsOfTools(t *testing.T) {
	const pdf = `{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}}`
	const words = "[document: a.pdf]\n" + notRead + "\n[end of the document: a.pdf]"
	before := user(`"x"`) + "," + assistant(`[`+use+`]`) + ","
	req := decoded(t, messages(before+user(`[`+result+`,`+pdf+`]`)))
	assert.Equal(t, words, req.Messages[2].Blocks[1].Text)
	req = decoded(t, messages(before+user(`[{"type":"tool_result","tool_use_id":"toolu_1","content":[`+pdf+`]}]`)))
	assert.Equal(t, words, req.Messages[2].Blocks[0].Parts[0].Text)
}

// What Anthropic's servers have done is in the text of the model, too.
func TestRecordsOfServers(t *testing.T) {
	req := decoded(t, messages(user(`"x"`)+","+assistant(`[
		{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}},
		{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"u",
			"title":"t","encrypted_content":"e","page_age":null}]},
		{"type":"web_fetch_tool_result","tool_use_id":"s","content":{"type":"web_fetch_result","url":"u","content":
			{"type":"document","source":{"type":"text","media_type":"text/plain","data":"d"}}}},
		{"type":"text","text":"found","citations":[{"type":"web_search_result_location","url":"u","title":"t",
			"encrypted_index":"e","cited_text":"c"}]}]`)+","+user(`"y"`)))
	assert.Equal(t, []string{"max_tokens", "messages.server_tool_use", "messages.web_fetch_tool_result",
		"messages.web_search_tool_result"}, req.Ignored)
	require.Len(t, req.Messages[1].Blocks, 1)
	assert.Equal(t, "found", req.Messages[1].Blocks[0].Text)
}

func TestToolResults(t *testing.T) {
	for content, want := range map[string][]string{
		`"content":"done"`: {"done"},
		`"content":null`:   {""},
		`"content":[]`:     {""},
		`"is_error":false`: {""},
		`"is_error":true,"content":"no such file"`:      {"Error: no such file"},
		`"is_error":true,"content":"<tool_use_error>x"`: {"<tool_use_error>x"},
		`"is_error":true`: {"Error: "},
		`"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]`: {"a", "b"},
		`"content":[{"type":"tool_reference","tool_name":"mcp__a__b"}]`:     {"The tool client_mcp__a__b can be called."},
		`"content":[{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]}]`: {
			"[search result: t, s]\nx\n[end of the search result]"},
	} {
		req := decoded(t, messages(user(`"x"`)+`,`+assistant(`[`+use+`]`)+`,`+
			user(`[{"type":"tool_result","tool_use_id":"toolu_1",`+content+`}]`)))
		var texts []string
		for _, p := range req.Messages[2].Blocks[0].Parts {
			texts = append(texts, p.Text)
		}
		assert.Equal(t, want, texts, content)
	}
	req := decoded(t, messages(user(`"x"`)+`,`+assistant(`[`+use+`]`)+`,`+
		user(`[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":[{"type":"image","source":
			{"type":"url","url":"https://a.example/b.png"}}]}]`)))
	assert.Equal(t, "Error:", req.Messages[2].Blocks[0].Parts[0].Text)
	assert.NotNil(t, req.Messages[2].Blocks[0].Parts[1].Image)
}

func TestTools(t *testing.T) {
	const tools = `"tools":[
		{"name":"mcp__a__b","description":"d","input_schema":{"type":"object","properties":{"x":{"type":"string"}}},
			"cache_control":{"type":"ephemeral","ttl":"1h"},"eager_input_streaming":true,"defer_loading":true,"strict":true,
			"input_examples":[{"x":"y"}],"allowed_callers":["direct"]},
		{"type":"custom","name":"g","input_schema":{"type":"object"}},
		{"type":"bash_20250124","name":"bash"},
		{"type":"text_editor_20250728","name":"str_replace_based_edit_tool","max_characters":10000},
		{"type":"memory_20250818","name":"memory"}]`
	for _, c := range []struct {
		choice       string
		names        []string
		instructions []string
		single       bool
	}{
		{`{"type":"auto"}`, []string{"mcp__a__b", "g", "bash", "str_replace_based_edit_tool", "memory"}, nil, false},
		{`{"type":"none"}`, nil, nil, false},
		{`{"type":"any"}`, []string{"mcp__a__b", "g", "bash", "str_replace_based_edit_tool", "memory"},
			[]string{"Your next message must be a call of one of your functions"}, false},
		{`{"type":"tool","name":"mcp__a__b"}`, []string{"mcp__a__b"},
			[]string{"must be a call of the function client_mcp__a__b"}, false},
		{`{"type":"auto","disable_parallel_tool_use":true}`,
			[]string{"mcp__a__b", "g", "bash", "str_replace_based_edit_tool", "memory"}, []string{"Call at most one"}, true},
	} {
		req := decoded(t, tools+`,"tool_choice":`+c.choice)
		var names []string
		for _, tool := range req.Tools {
			names = append(names, tool.Name)
		}
		assert.Equal(t, c.names, names, c.choice)
		assert.Equal(t, c.single, req.Single, c.choice)
		require.Len(t, req.Instructions, len(c.instructions), c.choice)
		for i := range c.instructions {
			assert.Contains(t, req.Instructions[i], c.instructions[i])
		}
		assert.Equal(t, []string{"max_tokens"}, req.Ignored)
	}
	req := decoded(t, tools)
	assert.Equal(t, "client_mcp__a__b", req.Tools[0].Wire.Name)
	assert.Equal(t, "d", req.Tools[0].Wire.Description)
}

func TestReasoning(t *testing.T) {
	for _, c := range []struct {
		members, effort, field, summary string
		thinking, disabled              bool
	}{
		{``, "", "", "none", false, false},
		{`"thinking":{"type":"disabled"}`, "", "", "none", false, true},
		{`"thinking":{"type":"adaptive"}`, "", "", "auto", true, false},
		{`"thinking":{"type":"adaptive","display":"omitted"}`, "", "", "none", true, false},
		{`"thinking":{"type":"adaptive","display":"summarized"}`, "", "", "auto", true, false},
		{`"thinking":{"type":"between_tools"}`, "", "", "auto", true, false},
		{`"thinking":{"type":"enabled","budget_tokens":1024}`, "low", "thinking.budget_tokens", "auto", true, false},
		{`"thinking":{"type":"enabled","budget_tokens":4096}`, "medium", "thinking.budget_tokens", "auto", true, false},
		{`"thinking":{"type":"enabled","budget_tokens":31999}`, "high", "thinking.budget_tokens", "auto", true, false},
		{`"output_config":{"effort":"xhigh"}`, "xhigh", "output_config.effort", "none", false, false},
		{`"output_config":{"effort":null}`, "", "", "none", false, false},
		{`"output_config":{"effort":"max"},"thinking":{"type":"enabled","budget_tokens":1024}`, "max",
			"output_config.effort", "auto", true, false},
	} {
		req := decoded(t, c.members)
		asked := req.Common()
		assert.Equal(t, c.effort, asked.SoftEffort, c.members)
		assert.Equal(t, c.field, asked.EffortField, c.members)
		assert.Equal(t, c.summary, *asked.Summary, c.members)
		assert.Equal(t, c.thinking, req.Thinking, c.members)
		assert.Equal(t, c.disabled, asked.NoReasoning, c.members)
		assert.Empty(t, *asked.Effort)
	}
}

func TestFormat(t *testing.T) {
	const schema = `{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string"}},
		"required":["a"],"additionalProperties":false}}`
	for _, members := range []string{`"output_config":{"format":` + schema + `}`, `"output_format":` + schema} {
		req := decoded(t, members)
		assert.Contains(t, string(req.Format.Schema), `"title":"output"`, members)
		assert.Empty(t, req.Instructions)
	}
	req := decoded(t, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`)
	require.Len(t, req.Instructions, 1)
	assert.Contains(t, req.Instructions[0], `{"type":"object"}`)
}

func TestScalars(t *testing.T) {
	req := decoded(t, `"stream":true,"speed":"fast","service_tier":"auto","stop_sequences":["a","\n\nHuman:"],
		"metadata":{"user_id":"user_1_account__session_2"},"temperature":1,"context_management":{"edits":[]},"top_k":null`)
	assert.True(t, req.Stream)
	assert.Equal(t, "priority", req.ServiceTier)
	assert.Equal(t, []string{"a", "\n\nHuman:"}, req.Stop)
	assert.Equal(t, "user_1_account__session_2", req.CacheKey)
	assert.Equal(t, []string{"context_management", "max_tokens", "metadata", "temperature"}, req.Ignored)
	assert.Empty(t, decoded(t, `"metadata":{"user_id":"ann"}`).CacheKey)
	assert.Contains(t, decoded(t, `"output_config":{"task_budget":{"type":"tokens"}}`).Ignored, "output_config.task_budget")
}

func TestDecodeCount(t *testing.T) {
	const count = `{"model":"claude-x","messages":[{"role":"user","content":"Hello"}]}`
	req, err := DecodeCount([]byte(count))
	require.NoError(t, err)
	assert.Empty(t, req.Ignored)
	_, err = DecodeMessage([]byte(count))
	assert.ErrorContains(t, err, "max_tokens: Field required")
}

func TestRefusals(t *testing.T) {
	ask := user(`"x"`) + ","
	for _, c := range []struct{ members, param, words string }{
		{`"model":""`, "model", "model: Field required"},
		{`"model":7`, "model", "model must not be a JSON number"},
		{`"max_tokens":null`, "max_tokens", "max_tokens: Field required"},
		{`"max_tokens":-1`, "max_tokens", "at least 0"},
		{`"max_tokens":1.5`, "max_tokens", "whole number"},
		{`"messages":[]`, "messages", "at least one message"},
		{messages(`{"content":"x"}`), "messages.0.role", "Field required"},
		{messages(`{"role":"tool","content":"x"}`), "messages.0.role", `user or assistant, not "tool"`},
		{messages(`{"role":"user"}`), "messages.0.content", "Field required"},
		{messages(user(`""`)), "messages.0.content", "non-empty"},
		{messages(user(`[]`)), "messages.0.content", "non-empty"},
		{messages(user(`7`)), "messages.0.content", "a string or a list"},
		{messages(user(`[7]`)), "messages.0.content.0", "must not be a JSON number"},
		{messages(user(`[{"text":"x"}]`)), "messages.0.content.0.type", "Field required"},
		{messages(user(`[{"type":"text"}]`)), "messages.0.content.0.text", "Field required"},
		{messages(user(`[{"type":"text","text":"a"},{"type":"text","text":7}]`)), "messages.0.content.1.text", "number"},
		{messages(user(`[{"type":"audio"}]`)), "messages.0.content.0.type", `"audio"`},
		{messages(user(`[{"type":"container_upload","file_id":"f"}]`)), "messages.0.content.0.type", "not supported"},
		{messages(user(`[` + use + `]`)), "messages.0.content.0", "can only be in `assistant` messages"},
		{messages(user(`[{"type":"image"}]`)), "messages.0.content.0.source.type", "Field required"},
		{messages(user(`[{"type":"image","source":{"type":"base64","media_type":"image/png"}}]`)),
			"messages.0.content.0.source.data", "Field required"},
		{messages(user(`[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]`)),
			"messages.0.content.0.source.data", "messages.0.content.0.source.data does not hold a png"},
		{messages(user(`[{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"AAAA"}}]`)),
			"messages.0.content.0.source.data", `not "image/tiff"`},
		{messages(user(`[{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}]`)),
			"messages.0.content.0.source.url", "http(s)"},
		{messages(user(`[{"type":"image","source":{"type":"file","file_id":"f"}}]`)),
			"messages.0.content.0.source", "files are not kept"},
		{messages(user(`[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}}]`)),
			"messages.0.content.0.source", "PDFs are not read; send the text"},
		{messages(user(`[{"type":"document","source":{"type":"url","url":"https://a.example/b.pdf"}}]`)),
			"messages.0.content.0.source", "PDFs are not read"},
		{messages(ask + assistant(`"Sure, "`)), "messages.1", "does not support assistant message prefill"},
		{messages(ask + assistant(`[{"type":"tool_use","name":"f","input":{}}]`)), "messages.1.content.0.id", "Field required"},
		{messages(ask + assistant(`[{"type":"tool_use","id":"t","name":"f"}]`)), "messages.1.content.0.input", "Field required"},
		{messages(ask + assistant(`[{"type":"tool_use","id":"t","name":"f","input":"{}"}]`)),
			"messages.1.content.0.input", "valid dictionary"},
		{messages(ask + assistant(`[{"type":"tool_use","id":"t","name":"f g","input":{}}]`)),
			"messages.1.content.0.name", "characters"},
		{messages(ask + assistant(`[`+use+`]`)), "messages.1",
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."},
		{messages(ask + assistant(`[`+use+`]`) + "," + user(`"never mind"`) + "," + assistant(`"ok"`) + "," + user(`[`+result+`]`)),
			"messages.1", "`tool_use` ids were found without `tool_result` blocks immediately after"},
		{messages(user(`[` + result + `]`)), "messages.0.content.0",
			"messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1."},
		{messages(ask + assistant(`[`+use+`]`) + "," + user(`[`+result+`,`+result+`]`)), "messages.2.content.1",
			"each tool_use must have a single result"},
		{messages(ask + assistant(`[`+use+`,`+use+`]`) + "," + user(`[`+result+`]`)), "messages.1.content.1",
			"`tool_use` ids must be unique"},
		{messages(ask + assistant(`[`+use+`]`) + "," + user(`[{"type":"tool_result"}]`)), "messages.2.content.0.tool_use_id",
			"Field required"},
		{messages(ask + assistant(`[`+use+`]`) + "," + user(`[{"type":"tool_result","tool_use_id":"toolu_1",
			"content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"file"}}]}]`)),
			"messages.2.content.0.content.1.source", "messages.2.content.0.content.1.source: files are not kept"},
		{messages(ask + assistant(`[`+use+`]`) + "," + user(`[{"type":"tool_result","tool_use_id":"toolu_1",
			"content":[{"type":"tool_use"}]}]`)), "messages.2.content.0.content.0.type", "not supported here"},
		{messages(user(`[` + strings.Repeat(`{"type":"search_result","content":[`, 1000) + strings.Repeat(`]}`, 1000) + `]`)),
			"messages.0.content.0.content.0.content.0.content.0.content", "cannot be in so many others"},
		{`"system":7`, "system", "a string or a list of text blocks"},
		{`"system":[{"type":"image"}]`, "system.0.type", "must be text"},
		{`"system":[{"type":"text","text":"a"},{"type":"text"}]`, "system.1.text", "Field required"},
		{`"thinking":{"type":"on"}`, "thinking.type", "enabled, adaptive or disabled"},
		{`"thinking":{"type":"enabled"}`, "thinking.budget_tokens", "Field required"},
		{`"thinking":{"type":"enabled","budget_tokens":10}`, "thinking.budget_tokens", "greater than or equal to 1024"},
		{`"thinking":{"type":"adaptive","display":"all"}`, "thinking.display", "summarized or omitted"},
		{`"output_config":{"effort":"huge"}`, "output_config.effort", "low medium high"},
		{`"output_config":{"format":{"type":"text"}}`, "output_config.format.type", "json_schema"},
		{`"output_config":{"format":{"type":"json_schema"}}`, "output_config.format.schema", "required"},
		{`"output_format":{"type":"json_schema","schema":[]}`, "output_format.schema", "required"},
		{`"service_tier":"flex"`, "service_tier", "auto or standard_only"},
		{`"speed":"slow"`, "speed", "standard or fast"},
		{`"stop_sequences":[" "]`, "stop_sequences.0", "non-whitespace"},
		{`"stop_sequences":["a",7]`, "stop_sequences.1", "number"},
		{`"temperature":"hot"`, "temperature", "string"},
		{`"tools":[7]`, "tools.0", "tools.0"},
		{`"tools":[{"name":"f"}]`, "tools.0.input_schema", "Field required"},
		{`"tools":[{"input_schema":{"type":"object"}}]`, "tools.0.name", "required"},
		{`"tools":[{"name":"f","input_schema":{"type":"array"}}]`, "tools.0.input_schema.type", "object"},
		{`"tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"text"}}}}]`,
			"tools.0.input_schema.properties.a.type", "tools.0.input_schema.properties.a.type"},
		{`"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"f","input_schema":{"type":"object"}}]`,
			"tools.1.name", "is the name of tools.0, too"},
		{`"tools":[{"type":"web_search_20250305","name":"web_search"}]`, "tools.0.type", "run on Anthropic's servers"},
		{`"tool_choice":{"type":"any"}`, "tool_choice", "there are no tools"},
		{`"tool_choice":{"type":"tool"}`, "tool_choice.name", "Field required"},
		{`"tool_choice":{"type":"tool","name":"f"}`, "tool_choice", `"f"`},
		{`"tool_choice":{"type":"required"}`, "tool_choice.type", "auto, any, tool or none"},
		{`"tool_choice":"auto"`, "tool_choice", "string"},
		{`"mcp_servers":[{"type":"url","url":"https://a.example","name":"a"}]`, "mcp_servers", "leave it out"},
		{`"container":"c"`, "container", "nothing runs on the server"},
	} {
		_, err := DecodeMessage(body(t, c.members))
		var e *openai.Error
		require.ErrorAs(t, err, &e, c.members)
		assert.Equal(t, 400, e.Status)
		assert.Equal(t, c.param, e.Param, c.members)
		assert.Contains(t, e.Message, c.words, c.members)
		assert.Contains(t, e.Message, c.param, "a message names its field, as the envelope does not")
	}
}

func TestInvalidBodies(t *testing.T) {
	for text, words := range map[string]string{
		``:                          "not valid JSON",
		`null`:                      "must be a JSON object",
		`[]`:                        "must be a JSON object",
		`{"model":"a","model":"b"}`: "two members of the same name",
		`{"max_tokens":1,"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}]}`: "messages.0.content.0.text: an object must not have two members of the same name",
	} {
		_, err := DecodeMessage([]byte(text))
		assert.ErrorContains(t, err, words, text)
	}
}

func TestTooManyMessages(t *testing.T) {
	list := strings.Repeat(user(`"x"`)+",", jsonbody.MaxList) + user(`"x"`)
	_, err := DecodeMessage(body(t, messages(list)))
	assert.ErrorContains(t, err, "must not hold more than 10000 messages")
}

// The requests in testdata/requests are those of clients, as they sent them.
func TestRequestsOfClients(t *testing.T) {
	entries, err := os.ReadDir("testdata/requests")
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, entry := range entries {
		data, err := os.ReadFile("testdata/requests/" + entry.Name())
		require.NoError(t, err)
		_, err = DecodeMessage(data)
		assert.NoError(t, err, entry.Name())
	}
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add(body(f, `"system":[{"type":"text","text":"a"}]`))
	f.Add(body(f, messages(user(`"x"`)+`,`+assistant(`[{"type":"thinking","thinking":"a","signature":"b"},`+use+`]`)+`,`+
		user(`[`+result+`]`))))
	f.Add(body(f, messages(user(`[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+pixel+`"}}]`))))
	f.Add(body(f, `"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}`))
	f.Add(body(f, `"thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"low"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		req, err := DecodeMessage(data)
		var e *openai.Error
		switch {
		case err != nil && (!errors.As(err, &e) || e.Status != 400 && e.Status != 413):
			t.Fatalf("%v", err)
		case err != nil:
			return
		}
		checkDecoded(t, req)
	})
}

// checkDecoded checks what the endpoint relies on.
func checkDecoded(t *testing.T, req *MessageRequest) {
	open := map[string]bool{}
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			switch b.Type {
			case BlockToolUse:
				require.True(t, json.Valid([]byte(b.Call.Arguments)))
				open[b.Call.ID] = true
			case BlockToolResult:
				require.True(t, open[b.CallID])
				require.NotEmpty(t, b.Parts)
				delete(open, b.CallID)
			case BlockText:
				require.NotEmpty(t, b.Text)
			case BlockImage:
				require.NotNil(t, b.Image)
			case BlockThinking:
			default:
				t.Fatal(b.Type)
			}
			require.True(t, strings.HasPrefix(b.At, m.At+".content"), b.At)
		}
	}
	require.Empty(t, open)
	require.NotEqual(t, roleAssistant, req.Messages[len(req.Messages)-1].Role)
}
