package patch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Git runs git with arguments and a standard input in the root of the tree, with LC_ALL=C, and without settings that
// the maker of the patch has chosen. An error is about the start of git; a status other than 0 is no error.
type Git interface {
	Run(ctx context.Context, stdin []byte, args ...string) (Output, error)
}

// Output is the exit status and the output of git.
type Output struct {
	Status         int
	Stdout, Stderr []byte
}

// Result is the effect of Apply.
type Result string

// The results.
const (
	Applied        Result = "applied"
	AppliedAlready Result = "applied_already" // the tree has the change; it was left as it is
)

// Apply applies the patch to the tree, wholly or not at all. A patch that git could apply again, as one that only sets
// modes, is applied again. The error is an *Error if the patch is refused.
func (p *Patch) Apply(ctx context.Context, git Git, tree *os.Root) (Result, error) {
	g := runner{ctx: ctx, git: git, patch: p}
	if err := g.compare(); err != nil {
		return "", err
	}
	if err := p.checkLinks(tree); err != nil {
		return "", err
	}
	directory, err := p.checkPlaces(tree)
	if err != nil {
		return "", err
	}
	refused, err := g.apply("--check")
	switch {
	case err != nil:
		return "", err
	case refused != nil && directory:
		return "", p.rejected(*refused)
	case refused != nil:
		backwards, err := g.apply("--check", "--reverse")
		switch {
		case err != nil:
			return "", err
		case backwards == nil:
			return AppliedAlready, nil
		}
		return "", p.rejected(*refused)
	}
	if refused, err = g.apply(); err != nil {
		return "", err
	}
	if refused != nil {
		return "", fmt.Errorf("git could not apply a patch that it had accepted: %s", firstLine(refused.Stderr))
	}
	return Applied, nil
}

// ApplyToIndex applies the patch to the index of git, wholly or not at all, and to no file. It takes no patch that
// moves a file. The error is an *Error if the patch is refused.
func (p *Patch) ApplyToIndex(ctx context.Context, git Git) error {
	for i := range p.Files {
		if f := &p.Files[i]; f.Copied || f.Old != "" && f.New != "" && f.Old != f.New {
			return &Error{Reason: Unsupported, File: f.New, Line: f.Line, Text: "it moves or copies a file",
				Remedy: "make the patch with `git diff --no-renames`"}
		}
	}
	g := runner{ctx: ctx, git: git, patch: p}
	if err := g.compare(); err != nil {
		return err
	}
	refused, err := g.apply("--cached")
	if err != nil || refused == nil {
		return err
	}
	return p.rejected(*refused)
}

// A runner runs git for one call.
type runner struct {
	ctx   context.Context
	git   Git
	patch *Patch
}

// apply runs git apply. It returns the output of a git that refuses the patch, nil of one that accepts it.
func (r runner) apply(options ...string) (*Output, error) {
	args := append([]string{"apply", "-p1", "--whitespace=nowarn"}, options...)
	out, err := r.git.Run(r.ctx, r.patch.text, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot run git apply: %w", err)
	}
	if out.Status != 0 {
		return &out, nil
	}
	return nil, nil
}

// compare refuses a patch in which git finds other files than Parse.
func (r runner) compare() error {
	out, err := r.git.Run(r.ctx, r.patch.text, "apply", "-p1", "--whitespace=nowarn", "--numstat", "-z")
	if err != nil {
		return fmt.Errorf("cannot run git apply: %w", err)
	}
	if out.Status != 0 {
		return &Error{Reason: Malformed, Text: "git cannot read it: " + firstLine(out.Stderr),
			Remedy: "make the patch with `git diff`"}
	}
	if seen := numstat(out.Stdout); !slices.EqualFunc(r.patch.Files, seen, func(f File, name string) bool {
		return f.Path() == name
	}) {
		return &Error{Reason: Malformed, Text: fmt.Sprintf("git finds other files in it: %.200q", seen),
			Remedy: "make the patch with `git diff`"}
	}
	return nil
}

// numstat returns the names in ADDED TAB REMOVED TAB NAME NUL…
func numstat(out []byte) []string {
	var names []string
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if parts := bytes.SplitN(entry, []byte("\t"), 3); len(parts) == 3 {
			names = append(names, string(parts[2]))
		}
	}
	return names
}

// patchFailed is git's message about a hunk: the name of the file, and the OldStart of the hunk.
var patchFailed = regexp.MustCompile(`(?m)^error: patch failed: (.*):(\d+)$`)

// rejected explains the refusal of git.
func (p *Patch) rejected(out Output) error {
	refusal := &Error{Reason: DoesNotApply, Text: firstLine(out.Stderr),
		Remedy: "make the patch against the commit that it is applied to"}
	failed := patchFailed.FindSubmatch(out.Stderr)
	for i := range p.Files {
		f := &p.Files[i]
		if failed == nil && namedIn(out.Stderr, f) {
			refusal.File, refusal.Line = f.Path(), f.Line
			return refusal
		}
		if failed == nil || string(failed[1]) != f.Old {
			continue
		}
		for _, h := range f.Hunks {
			if h.OldStart == number(string(failed[2])) {
				refusal.File, refusal.Line, refusal.Hunk = f.Path(), h.Line, h.Header
				refusal.Text = fmt.Sprintf("the file has other lines around line %d than the patch expects", h.OldStart)
				return refusal
			}
		}
	}
	return refusal
}

// namedIn reports whether a message of git is about the file.
func namedIn(stderr []byte, f *File) bool {
	for _, name := range []string{f.Old, f.New} {
		if name != "" && bytes.Contains(stderr, []byte("error: "+name+": ")) {
			return true
		}
	}
	return false
}

func firstLine(stderr []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(stderr)), "\n")
	return strings.TrimPrefix(line, "error: ")
}
