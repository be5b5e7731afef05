package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		{"notes.md", dataURL("text/markdown", []byte("# Hi\n\nÄ")),
			"[file: notes.md]\n# Hi\n\nÄ\n[end of file: notes.md]"},
		{"", "data:,a%20b+c", "[file: unnamed]\na b+c\n[end of file: unnamed]"},
		{"a.txt", dataURL("text/plain;charset=utf-8", []byte("\x1b[1mx\x1b[0m 16 more characters")),
			"[file: a.txt]\n\x1b[1mx\x1b[0m 16 more characters\n[end of file: a.txt]"},
		{"a.json", dataURL("application/json", []byte("{}")), "[file: a.json]\n{}\n[end of file: a.json]"},
		{"a.go", dataURL("application/octet-stream", []byte("package a")),
			"[file: a.go]\npackage a\n[end of file: a.go]"},
		{"a", dataURL("application/vnd.api+json", []byte("1")), "[file: a]\n1\n[end of file: a]"},
		{"a", dataURL("", []byte("1")), "[file: a]\n1\n[end of file: a]"},
	} {
		response, chat := withFile(t, map[string]string{"filename": tc.name, "file_data": tc.data})
		r, err := DecodeResponse(response)
		require.NoError(t, err, tc.data)
		want := ItemPart{Type: "input_text", Text: tc.want}
		assert.Equal(t, []ItemPart{want, {Type: "input_text", Text: "q"}}, r.Input[0].Content)
		assert.Equal(t, []ItemPart{want}, r.Input[2].Output.Parts)
		assert.Empty(t, r.Ignored)
		c, err := DecodeChat(chat)
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
		{map[string]string{"file_data": dataURL("application/pdf", []byte("%PDF-1.4"))}, "unsupported_parameter",
			"file_data", `"application/pdf" are not read`},
		{map[string]string{"file_data": dataURL("application/octet-stream", []byte("%PDF-1.4"))}, "unsupported_parameter",
			"file_data", "not text in UTF-8"},
		{map[string]string{"file_data": dataURL("text/plain", []byte("\xff\xfe"))}, "unsupported_parameter", "file_data",
			"not text in UTF-8"},
		{map[string]string{"file_data": dataURL("text/plain", []byte("a\x00"))}, "unsupported_parameter", "file_data",
			"not text in UTF-8"},
		{map[string]string{"file_data": dataURL("text/plain", []byte(strings.Repeat("a\x01", 20)))},
			"unsupported_parameter", "file_data", "not text in UTF-8"},
		{map[string]string{"file_data": dataURL("image/png", []byte("x"))}, "unsupported_parameter", "file_data",
			"as an image part"},
		{map[string]string{"file_data": dataURL("image/svg+xml", []byte("x"))}, "unsupported_parameter", "file_data",
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
		_, inResponse := DecodeResponse(response)
		_, inChat := DecodeChat(chat)
		for at, err := range map[string]error{"input[0].content[0].": inResponse,
			"messages[0].content[0].file.": inChat} {
			var e *Error
			require.ErrorAs(t, err, &e, "%v", tc.file)
			assert.Equal(t, http.StatusBadRequest, e.Status)
			assert.Equal(t, tc.code, e.Code)
			assert.Equal(t, at+tc.field, e.Param)
			assert.Contains(t, e.Message, tc.words)
		}
	}
}

// A file is decoded into one buffer; text with escapes is in one more for a moment.
func TestFilesAreDecodedOnce(t *testing.T) {
	const size = 8 << 20
	for data, most := range map[string]uint64{
		"data:," + strings.Repeat("a", size) + "%20":               2,
		"data:," + strings.Repeat("a", size):                       1,
		"data:;base64," + strings.Repeat("YWFh", size/3):           1,
		"data:text/plain;base64," + strings.Repeat("YWFh", size/3): 1,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := filePart{Data: data}.text("at")
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		assert.Greater(t, len(text), size-3)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, most*size+1<<20, "%.30s", data)
	}
}
