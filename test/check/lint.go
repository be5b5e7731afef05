package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// lint looks at the packages that the change touches.
func lint(ctx context.Context, out io.Writer, linter string) (ok bool) {
	c, err := findChange(ctx)
	if err != nil {
		problems := plain(ctx, everything)
		fmt.Fprintf(out, "lint: git does not know the change, so go vet and gofmt look at all files (%v): %s\n", err, verdict(problems))
		return problems == ""
	}
	with, problems := "golangci-lint", ""
	switch _, err = os.Stat(linter); {
	case len(c.dirs) == 0:
		with = "nothing to do"
	case err == nil:
		problems = golangci(ctx, linter, c)
	default:
		with, problems = "go vet and gofmt, as no golangci-lint is built yet (make lint builds it)", plain(ctx, c)
	}
	fmt.Fprintf(out, "lint: %d files in %d packages since %.10s, with %s: %s\n", len(c.files), len(c.dirs), c.base, with, verdict(problems))
	return problems == ""
}

func verdict(problems string) string { return cmp.Or(problems, "ok") }

// golangci has golangci-lint look at the changed packages, for problems in changed lines.
func golangci(ctx context.Context, linter string, c change) string {
	return complaint(output(ctx, linter, append([]string{"run", "--new-from-rev=" + c.base}, c.dirs...)...))
}

func plain(ctx context.Context, c change) string {
	badly, err := output(ctx, "gofmt", append([]string{"-l"}, c.files...)...)
	if badly = strings.TrimSpace(badly); badly != "" {
		badly = "\nnot as gofmt writes them: " + badly
	}
	return badly + complaint("", err) + complaint(output(ctx, "go", append([]string{"vet"}, c.dirs...)...))
}

func complaint(_ string, err error) string {
	if err == nil {
		return ""
	}
	return "\n" + err.Error()
}
