package codexhome

import (
	"errors"
	"fmt"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/strict"
)

// ErrRetry marks a failure that may pass by itself: codex was too slow, or could not fetch an account's policies.
// It never means that the operator's settings are wrong.
var ErrRetry = errors.New("try again")

// ErrNoLogin marks a home without a login, which its worker needs.
var ErrNoLogin = errors.New("codex is not logged in")

// Problem is a fault that only an operator can mend. Its text is one line with the place and the remedy.
type Problem struct {
	File string // as the operator knows it; empty when no file is at fault
	Line int    // 0 when unknown
	Text string
	Hint string // the remedy; may be empty

	cause error // for errors.Is; may be nil
}

// Unwrap returns the kind of the fault, if it has one.
func (p *Problem) Unwrap() error { return p.cause }

func (p *Problem) Error() string {
	text := p.Text
	if p.Hint != "" {
		text += ": " + p.Hint
	}
	switch {
	case p.File == "":
		return text
	case p.Line == 0:
		return p.File + ": " + text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, text)
}

// problem is a Problem with key, on its line if the file has it.
func (w *Worker) problem(key, text, hint string) *Problem {
	line, _ := w.lines.Find(key)
	return &Problem{File: w.File, Line: line, Text: text, Hint: hint}
}

var unknownField = lazyregexp.New("^unknown configuration field `([^`]+)`")

// key is the key that codex refuses; empty if codex names none.
func (r *refusal) key(rendered strict.Lines) string {
	if m := unknownField.FindStringSubmatch(r.Detail); m != nil {
		if _, ok := rendered.Find(m[1]); ok {
			return m[1]
		}
	}
	return rendered.KeyAt(r.Line)
}

// dispensable reports whether key is a setting of ours that the worker does not need, and that the operator did
// not write.
func (w *Worker) dispensable(key string) bool {
	for k := range needed {
		if k == key || strings.HasPrefix(k, key+".") || strings.HasPrefix(key, k+".") {
			return false
		}
	}
	return key != "" && !has(w.Extra, key)
}

// has reports whether the tree sets key or a key in it.
func has(tree settings, key string) bool {
	var at any = tree
	for part := range strings.SplitSeq(key, ".") {
		table, ok := at.(settings)
		if !ok {
			return false
		}
		if at, ok = table[part]; !ok {
			return false
		}
	}
	return true
}

// explain translates codex's refusal of the generated config.toml into a Problem of the worker file.
func (w *Worker) explain(r *refusal, configFile, key, version string) error {
	if r.Reason == "cloudConfigBundle" {
		return fmt.Errorf("codex cannot fetch the policies of this account's workspace (%s): %w", r.Detail, ErrRetry)
	}
	if r.File != "" && r.File != configFile {
		return &Problem{File: r.File, Line: r.Line, Text: "codex " + version + " refuses this file: " + r.Detail}
	}
	detail := r.Detail
	if unknownField.MatchString(detail) {
		detail = fmt.Sprintf("unknown key %q in [codex], codex %s has no such setting", key, version)
	} else if key != "" {
		detail = fmt.Sprintf("codex %s refuses %q: %s", version, key, detail)
	} else {
		detail = fmt.Sprintf("codex %s refuses these settings: %s", version, detail)
	}
	if has(w.Extra, key) {
		return w.problem("codex."+key, detail, "correct or remove it")
	}
	if key == "" {
		return &Problem{File: w.File, Text: detail}
	}
	text := fmt.Sprintf("codex %s does not take the setting %q that it needs: %s", version, key, r.Detail)
	return w.problem(w.ownKey(key), text, "use another version of codex")
}

// ownKey is the key of the worker file that causes a generated key.
func (w *Worker) ownKey(key string) string {
	switch {
	case w.remote != nil && strings.HasPrefix(key, "sandbox"):
		return "sandbox"
	case strings.HasPrefix(key, "model_provider"):
		return "provider"
	case key == "model":
		return "model"
	}
	return "mode"
}
