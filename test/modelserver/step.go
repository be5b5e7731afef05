package modelserver

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Step is one thing that an answer does, written "verb arguments":
//
//	text TEXT               a delta of the answer; one step is one chunk
//	split TEXT              the same, but its event is cut inside a multi-byte character, in two writes
//	repeat N TEXT           N deltas of TEXT
//	trickle DURATION TEXT   TEXT one character at a time, DURATION before each
//	huge BYTES [CHUNK]      BYTES of text in deltas of CHUNK (8192)
//	reasoning TEXT          a delta of the reasoning summary
//	refusal TEXT            a message that is a refusal
//	call NAME JSON          a function call; several in a row are parallel calls
//	calling NAME JSON       a function call that the next step finds unfinished: JSON is what came of its arguments
//	custom NAME INPUT       a call of a custom tool, whose input is text, such as codex's own "exec"
//	delay DURATION          nothing, for a while ("20ms")
//	gate NAME               nothing, until the test releases the gate
//	usage IN CACHED OUT REASONING   the token counts of this answer
//	incomplete [REASON]     response.incomplete (max_output_tokens), the end
//	failed CODE [MESSAGE]   response.failed, the end
//	error STATUS [retry-after=N] [BODY]   an HTTP error instead of a stream; must be the first step
//	garbage                 200 with HTML instead of a stream; must be the first step
//	badjson                 an event whose data is not JSON
//	drop                    the connection is cut here
//	completed               response.completed; the connection stays open for the steps that follow
//	end                     the stream ends here cleanly, without response.completed
//	silence                 headers, and what came before; then nothing until the client goes
//	hang                    nothing at all, not even headers, until the client goes; must be the first step
//
// An answer that does not end by one of these ends by response.completed.
type Step struct {
	Verb  string
	Text  string // text, message or body
	Name  string // tool, gate, code or reason
	N     int    // count, bytes or status
	Chunk int    // bytes of a delta
	Every time.Duration
	Retry string // Retry-After
	Usage Usage
}

// Usage is the token counts that an answer reports.
type Usage struct{ Input, Cached, Output, Reasoning int }

// ParseSteps reads steps. The error names the step that it cannot read.
func ParseSteps(lines []string) ([]Step, error) {
	var steps []Step
	for i, line := range lines {
		step, err := parseStep(line)
		if err != nil {
			return nil, fmt.Errorf("cannot read step %d %q: %w", i+1, line, err)
		}
		if i > 0 && onlyFirst[step.Verb] {
			return nil, fmt.Errorf("cannot read step %d %q: %s must be the first step", i+1, line, step.Verb)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

var onlyFirst = map[string]bool{"error": true, "garbage": true, "hang": true}

func parseStep(line string) (Step, error) {
	verb, rest, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	step := Step{Verb: verb}
	var err error
	switch verb {
	case "text", "split", "reasoning", "refusal":
		step.Text = rest
	case "repeat":
		step.N, step.Text, err = number(rest)
	case "trickle":
		step.Every, step.Text, err = duration(rest)
	case "delay":
		step.Every, _, err = duration(rest)
	case "huge":
		err = step.parseHuge(rest)
	case "call", "calling", "custom":
		err = step.parseCall(rest)
	case "usage":
		err = step.parseUsage(rest)
	case "error":
		err = step.parseError(rest)
	case "gate", "failed", "incomplete":
		step.Name, step.Text, _ = strings.Cut(rest, " ")
	case "garbage", "badjson", "completed", "drop", "end", "silence", "hang":
	default:
		err = fmt.Errorf("unknown verb %q", verb)
	}
	return step, err
}

func number(text string) (int, string, error) {
	first, rest, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(first)
	if err != nil || n < 0 {
		return 0, "", fmt.Errorf("%q is not a count", first)
	}
	return n, rest, nil
}

func duration(text string) (time.Duration, string, error) {
	first, rest, _ := strings.Cut(text, " ")
	d, err := time.ParseDuration(first)
	if err != nil || d < 0 {
		return 0, "", fmt.Errorf("%q is not a duration", first)
	}
	return d, rest, nil
}

func (s *Step) parseHuge(text string) (err error) {
	s.Chunk = 8192
	if s.N, text, err = number(text); err != nil || text == "" {
		return err
	}
	if s.Chunk, _, err = number(text); err == nil && s.Chunk == 0 {
		return fmt.Errorf("a chunk needs a byte")
	}
	return err
}

func (s *Step) parseCall(text string) error {
	s.Name, s.Text, _ = strings.Cut(text, " ")
	if s.Name == "" {
		return fmt.Errorf("a call needs a tool name")
	}
	if s.Text == "" {
		s.Text = "{}"
	}
	return nil
}

func (s *Step) parseUsage(text string) error {
	_, err := fmt.Sscan(text, &s.Usage.Input, &s.Usage.Cached, &s.Usage.Output, &s.Usage.Reasoning)
	return err
}

func (s *Step) parseError(text string) (err error) {
	if s.N, text, err = number(text); err != nil {
		return err
	}
	if retry, ok := strings.CutPrefix(text, "retry-after="); ok {
		s.Retry, text, _ = strings.Cut(retry, " ")
	}
	if s.N < 300 || s.N > 599 {
		return fmt.Errorf("%d is not an error status", s.N)
	}
	s.Text = text
	if text == "" {
		s.Text = errorBody(s.N)
	}
	return nil
}

// errorBody is the envelope of OpenAI's API reference, "Error codes".
func errorBody(status int) string {
	kind, code := "server_error", "server_error"
	switch status {
	case 400:
		kind, code = "invalid_request_error", "invalid_value"
	case 401:
		kind, code = "invalid_request_error", "invalid_api_key"
	case 429:
		kind, code = "requests", "rate_limit_exceeded"
	}
	body, _ := json.Marshal(map[string]any{"error": map[string]any{
		"message": fmt.Sprintf("scripted error %d", status), "type": kind, "param": nil, "code": code}})
	return string(body)
}
