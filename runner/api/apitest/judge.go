package apitest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"codex-proxy/runner/api/wire"
)

// Judge returns a handler that passes requests on to next, and fails t for each request and answer that the OpenAPI
// document does not allow.
func Judge(t testing.TB, next http.Handler) http.Handler {
	t.Helper()
	j, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, err := j.request(r)
		if err != nil {
			t.Errorf("%s %s is no request of the document: %v", r.Method, r.URL, err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kept := &recorder{ResponseWriter: w}
		next.ServeHTTP(kept, r)
		if err := call.answer(kept); err != nil && r.Context().Err() == nil {
			t.Errorf("the answer to %s %s is none of the document: %v", r.Method, r.URL, err)
		}
	})
}

// judge has the document.
type judge struct {
	mu       sync.Mutex // of compiler
	compiler *jsonschema.Compiler
	document any
}

// newJudge reads the document, once for a program.
var newJudge = sync.OnceValues(func() (*judge, error) {
	var yamlDocument any
	if err := yaml.Unmarshal(wire.Document(), &yamlDocument); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	return &judge{compiler: c, document: yamlDocument}, c.AddResource(resource, yamlDocument)
})

const resource = "openapi.json"

// call is a request of an operation of the document.
type call struct {
	judge *judge
	at    string // the JSON pointer of the operation
}

// request finds the operation of r and checks r against it.
func (j *judge) request(r *http.Request) (*call, error) {
	paths, _ := j.at("/paths").(map[string]any)
	for template := range paths {
		values, ok := match(template, r.URL.Path)
		if !ok {
			continue
		}
		path := "/paths/" + pointer(template)
		operation := path + "/" + strings.ToLower(r.Method)
		if j.at(operation) == nil {
			continue
		}
		c := &call{j, operation}
		if err := errors.Join(c.parameters(path, values, r.URL.Query()), c.body(r)); err != nil {
			return nil, err
		}
		return c, nil
	}
	return nil, errors.New("it has no such operation")
}

// match returns the values of the parameters of a path's template.
func match(template, path string) (map[string]string, bool) {
	names, values := strings.Split(template, "/"), strings.Split(path, "/")
	if len(names) != len(values) {
		return nil, false
	}
	found := map[string]string{}
	for i, name := range names {
		switch {
		case strings.HasPrefix(name, "{"):
			found[strings.Trim(name, "{}")] = values[i]
		case name != values[i]:
			return nil, false
		}
	}
	return found, true
}

// parameters checks those of the path and of the query, which has no others.
func (c *call) parameters(path string, inPath map[string]string, query url.Values) error {
	known := map[string]bool{}
	for _, list := range []string{path + "/parameters", c.at + "/parameters"} {
		all, _ := c.judge.at(list).([]any)
		for i := range all {
			at := c.judge.follow(fmt.Sprintf("%s/%d", list, i))
			name, _ := c.judge.at(at + "/name").(string)
			value, given := inPath[name]
			if c.judge.at(at+"/in") == "query" {
				known[name] = true
				value, given = query.Get(name), query.Has(name)
			}
			if !given {
				continue
			}
			if err := c.judge.valid(at+"/schema", typed(value, c.judge.at(c.judge.follow(at+"/schema")+"/type"))); err != nil {
				return fmt.Errorf("the parameter %s: %w", name, err)
			}
		}
	}
	for name := range query {
		if !known[name] {
			return fmt.Errorf("it has no parameter %s", name)
		}
	}
	return nil
}

// typed returns the JSON value that a parameter of this type has.
func typed(text string, kind any) any {
	if kind == "string" {
		return text
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return text
	}
	return value
}

// body checks the body of a request, and leaves it as it was.
func (c *call) body(r *http.Request) error {
	content, _ := c.judge.at(c.at + "/requestBody/content").(map[string]any)
	kind := r.Header.Get("Content-Type")
	if content == nil {
		if kind != "" || r.ContentLength > 0 {
			return errors.New("it has no body")
		}
		return nil
	}
	if content[kind] == nil {
		return fmt.Errorf("it has no body of the type %q", kind)
	}
	if kind != "application/json" {
		return nil
	}
	text, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return c.judge.validText(c.at+"/requestBody/content/application~1json/schema", text)
}

// answer checks an answer.
func (c *call) answer(a *recorder) error {
	responses := c.at + "/responses/"
	at := fmt.Sprintf("%s%d", responses, a.status)
	if c.judge.at(at) == nil && a.status >= http.StatusBadRequest {
		at = responses + "default"
	}
	if c.judge.at(at) == nil {
		return fmt.Errorf("it has no status %d", a.status)
	}
	at = c.judge.follow(at)
	content, _ := c.judge.at(at + "/content").(map[string]any)
	kind, _, _ := strings.Cut(a.Header().Get("Content-Type"), ";")
	if content != nil && content[kind] == nil {
		return fmt.Errorf("%d has no body of the type %q", a.status, kind)
	}
	if content != nil && kind == "application/json" {
		return c.judge.validText(at+"/content/application~1json/schema", a.text.Bytes())
	}
	return nil
}

// recorder keeps the status and a JSON body.
type recorder struct {
	http.ResponseWriter
	status int
	text   bytes.Buffer
}

func (a *recorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *recorder) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.Header().Get("Content-Type") == "application/json" {
		a.text.Write(p)
	}
	return a.ResponseWriter.Write(p)
}

// Hijack is that of http.Hijacker. What takes the connection has answered 101.
func (a *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.status = http.StatusSwitchingProtocols
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController.
func (a *recorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// at returns the value at a JSON pointer, or nil.
func (j *judge) at(pointer string) any {
	value := j.document
	for _, word := range strings.Split(pointer, "/")[1:] {
		word = strings.NewReplacer("~1", "/", "~0", "~").Replace(word)
		switch v := value.(type) {
		case map[string]any:
			value = v[word]
		case []any:
			var i int
			if _, err := fmt.Sscan(word, &i); err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// follow returns the pointer to which the reference at a pointer leads, or the pointer itself.
func (j *judge) follow(pointer string) string {
	if v, ok := j.at(pointer).(map[string]any); ok {
		if to, ok := v["$ref"].(string); ok {
			return j.follow(strings.TrimPrefix(to, "#"))
		}
	}
	return pointer
}

func pointer(word string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(word) }

// valid checks a value against the schema at a pointer.
func (j *judge) valid(pointer string, value any) error {
	at := url.URL{Path: resource, Fragment: pointer}
	j.mu.Lock()
	schema, err := j.compiler.Compile(at.String())
	j.mu.Unlock()
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (j *judge) validText(pointer string, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return j.valid(pointer, value)
}
