package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/openaitest"
	"codex-proxy/proxy/responses/wire"
)

// withFile are the bodies of a response and of a chat with the file, and the paths of the file in them.
func withFile(t *testing.T, f map[string]string) (response, chat []byte) {
	t.Helper()
	fields, err := json.Marshal(f)
	require.NoError(t, err)
	input := strings.Replace(string(fields), "{", `{"type":"input_file",`, 1)
	response = fmt.Appendf(nil, `{"model":"m","input":[{"role":"user","content":[%s,{"type":"input_text","text":"q"}]},
		{"type":"function_call","call_id":"c","name":"f"},
		{"type":"function_call_output","call_id":"c","output":[%[1]s]}]}`, input)
	return response, fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":[
		{"type":"file","file":%s},{"type":"text","text":"q"}]}]}`, fields)
}

func TestFilesOfTextAreText(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"notes.md", openaitest.DataURL("text/markdown", []byte("# Hi\n\nÄ")),
			"[file: notes.md]\n# Hi\n\nÄ\n[end of file: notes.md]"},
		{"", "data:,a%20b+c", "[file: unnamed]\na b+c\n[end of file: unnamed]"},
		{"a.txt", openaitest.DataURL("text/plain;charset=utf-8", []byte("\x1b[1mx\x1b[0m 16 more characters")),
			"[file: a.txt]\n\x1b[1mx\x1b[0m 16 more characters\n[end of file: a.txt]"},
		{"a.json", openaitest.DataURL("application/json", []byte("{}")), "[file: a.json]\n{}\n[end of file: a.json]"},
		{"a.go", openaitest.DataURL("application/octet-stream", []byte("package a")),
			"[file: a.go]\npackage a\n[end of file: a.go]"},
		{"a", openaitest.DataURL("application/vnd.api+json", []byte("1")), "[file: a]\n1\n[end of file: a]"},
		{"a", openaitest.DataURL("", []byte("1")), "[file: a]\n1\n[end of file: a]"},
	} {
		response, chat := withFile(t, map[string]string{"filename": tc.name, "file_data": tc.data})
		r, err := wire.Decode(response, jsonbody.Reading{})
		require.NoError(t, err, tc.data)
		want := wire.ItemPart{Type: "input_text", Text: tc.want}
		assert.Equal(t, []wire.ItemPart{want, {Type: "input_text", Text: "q"}}, r.Input[0].Content)
		assert.Equal(t, []wire.ItemPart{want}, r.Input[2].Output.Parts)
		assert.Empty(t, r.Ignored)
		c, err := Decode(chat, jsonbody.Reading{})
		require.NoError(t, err, tc.data)
		assert.Equal(t, tc.want, c.Messages[0].Parts[0].Text)
	}
}

func TestFilesThatAreNotText(t *testing.T) {
	for _, tc := range []struct {
		file        map[string]string
		code, field string
		words       string
	}{
		{map[string]string{"file_data": openaitest.DataURL("application/pdf", []byte("%PDF-1.4"))}, "unsupported_parameter",
			"file_data", `"application/pdf" are not read`},
		{map[string]string{"file_data": openaitest.DataURL("application/octet-stream", []byte("%PDF-1.4"))}, "unsupported_parameter",
			"file_data", "not text in UTF-8"},
		{map[string]string{"file_data": openaitest.DataURL("text/plain", []byte("\xff\xfe"))}, "unsupported_parameter", "file_data",
			"not text in UTF-8"},
		{map[string]string{"file_data": openaitest.DataURL("text/plain", []byte("a\x00"))}, "unsupported_parameter", "file_data",
			"not text in UTF-8"},
		{map[string]string{"file_data": openaitest.DataURL("text/plain", []byte(strings.Repeat("a\x01", 20)))},
			"unsupported_parameter", "file_data", "not text in UTF-8"},
		{map[string]string{"file_data": openaitest.DataURL("image/png", []byte("x"))}, "unsupported_parameter", "file_data",
			"as an image part"},
		{map[string]string{"file_data": openaitest.DataURL("image/svg+xml", []byte("x"))}, "unsupported_parameter", "file_data",
			"as an image part"},
		{map[string]string{"file_data": "aGFsbG8="}, "invalid_value", "file_data", "must be a data URL"},
		{map[string]string{"file_data": "data:text/plain;base64,%%"}, "invalid_value", "file_data", "base64"},
		{map[string]string{"file_data": "data:text/plain,%zz"}, "invalid_value", "file_data", "escape"},
		{map[string]string{"file_data": "data:,x", "filename": "a\nb"}, "invalid_value", "filename", "control"},
		{map[string]string{"file_data": "data:,x", "filename": strings.Repeat("a", 256)}, "invalid_value", "filename",
			"255"},
		{map[string]string{"file_id": "file-1"}, "unsupported_parameter", "file_id", "file_data"},
		{map[string]string{"file_url": "https://x.example"}, "unsupported_parameter", "file_url", "file_data"},
		{map[string]string{"filename": "a"}, "field_required", "file_data", "required"},
	} {
		response, chat := withFile(t, tc.file)
		_, inResponse := wire.Decode(response, jsonbody.Reading{})
		_, inChat := Decode(chat, jsonbody.Reading{})
		for at, err := range map[string]error{"input[0].content[0].": inResponse,
			"messages[0].content[0].file.": inChat} {
			var e *openai.Error
			require.ErrorAs(t, err, &e, "%v", tc.file)
			assert.Equal(t, http.StatusBadRequest, e.Status)
			assert.Equal(t, tc.code, e.Code)
			assert.Equal(t, at+tc.field, e.Param)
			assert.Contains(t, e.Message, tc.words)
		}
	}
}
