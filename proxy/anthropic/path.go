package anthropic

import (
	"errors"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/proxy/openai"
)

// brackets are the indices in a path of OpenAI's form, such as messages[3].content[0].
var (
	bracketed = lazyregexp.New(`\b(?:messages|system|tools|stop_sequences|content)[\w.]*(?:\[\d+\][\w.]*)+`)
	brackets  = lazyregexp.New(`\[(\d+)\]`)
)

// dotted is an error with its paths in Anthropic's form, messages.3.content.0.
func dotted(err error) error {
	var e *openai.Error
	if !errors.As(err, &e) || !strings.Contains(e.Param+e.Message, "[") {
		return err
	}
	placed := *e
	placed.Param = dots(e.Param)
	placed.Message = bracketed.ReplaceAllStringFunc(e.Message, dots)
	return &placed
}

func dots(path string) string { return brackets.ReplaceAllString(path, ".$1") }

// under converts an error of a part with paths relative to at. Its message begins with the path.
func under(at string, err error) error {
	var e *openai.Error
	if !errors.As(err, &e) {
		return err
	}
	placed := *e
	placed.Param = strings.TrimSuffix(at+"."+e.Param, ".")
	if rest, ok := strings.CutPrefix(e.Message, e.Param); ok {
		placed.Message = placed.Param + rest
	}
	return &placed
}
