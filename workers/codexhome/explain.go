package codexhome

import (
	"fmt"
	"regexp"
	"strings"

	"codex-proxy/internal/strict"
)

var unknownField = regexp.MustCompile("^unknown configuration field `([^`]+)`")

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
	return key != "" && !w.wrote(key)
}

// wrote reports whether the [codex] table sets key or a key in it.
func (w *Worker) wrote(key string) bool { return has(w.Extra, key) }

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
	if w.wrote(key) {
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
