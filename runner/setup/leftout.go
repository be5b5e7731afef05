package setup

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"codex-proxy/runner/environment"
)

// LeftOut lists the parts of a set-up that a script leaves out, as the host lacks the programs.
type LeftOut struct {
	Notes    []string // sentences for people: one for each manifest, and one with the remedy
	Programs []string // that are missing, as in Part.Needs
	All      error    // why nothing is left of the parts, or nil
}

// remedy is the last one of the notes.
const remedy = "In runner.toml, path and toolchains of [sandbox] show sessions what the host has elsewhere; --env none " +
	"leaves the set-up out."

// FindOn is Find for a host: of the parts that lack programs there, the script has nothing but a comment.
func FindOn(
	ctx context.Context, host environment.Host, repository fs.FS, given string,
) (s *Script, parts []Part, left LeftOut, err error) {
	s, parts, err = Find(repository, given)
	if err == nil && len(parts) > 0 {
		left, err = leaveOut(ctx, host, parts)
		s = Join(parts)
	}
	return s, parts, left, err
}

// leaveOut leaves nothing but a comment of the parts that lack programs.
func leaveOut(ctx context.Context, host environment.Host, parts []Part) (left LeftOut, err error) {
	for i := range parts {
		p := &parts[i]
		need, err := p.lacks(ctx, host)
		if ctx.Err() != nil {
			return LeftOut{}, context.Cause(ctx) // tools may not have been asked
		}
		if err == nil {
			continue
		}
		manifest := oneLine(p.Manifest)
		left.Notes = append(left.Notes, fmt.Sprintf("The set-up left %s out: %v.", manifest, err))
		left.Programs = append(left.Programs, need)
		*p = Part{
			Way: p.Way, Language: p.Language, Dir: p.Dir, Manifest: p.Manifest, without: "left out, as " + err.Error(),
		}
		if len(left.Programs) == len(parts) {
			left.All = fmt.Errorf("%s needs what is not there: %w", manifest, err)
		}
	}
	if len(left.Notes) > 0 {
		left.Notes = append(left.Notes, remedy)
	}
	return left, nil
}

// lacks returns the first program that the part needs and the host does not have, with the error about it.
func (p Part) lacks(ctx context.Context, host environment.Host) (need string, err error) {
	for _, need := range p.Needs {
		if _, err := oneOf(ctx, host, need); err != nil {
			return need, err
		}
	}
	return "", nil
}

// oneOf returns the first tool of a need that the host has: "uv or pip" has two. The error is about the first one.
func oneOf(ctx context.Context, host environment.Host, need string) (environment.Tool, error) {
	var first error
	for name := range strings.SplitSeq(need, " or ") {
		t, err := host.Tool(ctx, name)
		if err == nil {
			return t, nil
		}
		if first == nil {
			first = err
		}
	}
	return environment.Tool{}, first
}

// Meets reports whether the host has a program now that a set-up has missed.
func Meets(host environment.Host, programs []string) bool {
	for _, need := range programs {
		for name := range strings.SplitSeq(need, " or ") {
			if host.Has(name) == nil {
				return true
			}
		}
	}
	return false
}
