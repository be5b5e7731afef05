package appservertest

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Reply answers every turn with the given chunks.
func Reply(chunks ...string) Handler {
	return func(_ context.Context, t *Turn) error {
		t.Text(chunks...)
		t.EndResponse(Usage{Input: words(t.Request.Prompt()), Output: len(chunks)})
		return nil
	}
}

// Fail fails every turn with that codexErrorInfo.
func Fail(message string, info any) Handler {
	return func(context.Context, *Turn) error { return &Failure{Message: message, Info: info} }
}

// Hang sends some text and then waits to be interrupted.
func Hang(text string) Handler {
	return func(ctx context.Context, t *Turn) error {
		t.Begin("").Delta(text)
		<-ctx.Done()
		return ctx.Err()
	}
}

// Demo answers with friendly canned text, word by word with a pause in between.
func Demo(pause time.Duration) Handler {
	return func(ctx context.Context, t *Turn) error {
		t.Reasoning("Thinking of ", "something nice to say.")
		m, n := t.Begin(""), 0
		for _, word := range strings.SplitAfter(greeting(t.Request), " ") {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
			m.Delta(word)
			n++
		}
		m.End()
		input := 0
		for _, item := range t.Request.Items {
			input += words(string(item))
		}
		t.EndResponse(Usage{Input: input, Output: n + 6, Reasoning: 6})
		return nil
	}
}

// maxQuote is how many characters of the prompt the demo repeats.
const maxQuote = 200

func greeting(r Request) string {
	prompt := []rune(strings.Join(strings.Fields(r.Prompt()), " "))
	if len(prompt) == 0 {
		return "Hello from the demo worker! Say something and I will say it back."
	}
	quote := string(prompt)
	if len(prompt) > maxQuote {
		quote = string(prompt[:maxQuote]) + "…"
	}
	return fmt.Sprintf("Hello from the demo worker! You said: %q. "+
		"No model was asked; log in with a real account to get real answers.", quote)
}

func words(s string) int { return len(strings.Fields(s)) }
