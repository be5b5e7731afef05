// Check is the fast loop of a contributor: lint of the change, and all unit tests, without root, downloads or a machine.
// It prints what failed, and which tests it left out and why.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	linter := flag.String("lint", "", "the golangci-lint to use; if it is missing, go vet and gofmt look at the change")
	programs := flag.Bool("programs", false, "run the tests of real programs, too, which the CODEX_PROXY_TEST_* variables name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if !*programs {
		forgetPrograms()
	}
	linted := lint(ctx, os.Stdout, *linter)
	tested := test(ctx, os.Stdout)
	if !linted || !tested {
		stop()
		os.Exit(1)
	}
}

// variables begin the names of what `make` sets for tests of real programs.
const variables = "CODEX_PROXY_TEST_"

func forgetPrograms() {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, variables) {
			_ = os.Unsetenv(name)
		}
	}
}

// test runs the unit tests, and prints each failure when its package ends.
func test(ctx context.Context, out io.Writer) (ok bool) {
	began := time.Now()
	list, err := output(ctx, "go", "list", "./...")
	if err != nil {
		fmt.Fprintln(out, err)
		return false
	}
	packages := slices.DeleteFunc(strings.Fields(list), func(p string) bool { return strings.Contains(p, "/test/integration/") })
	// Many tests wait for something, so more packages than processors run at a time.
	atOnce := strconv.Itoa(2 * runtime.NumCPU())
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-p", atOnce, "-parallel", "8"}, packages...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		fmt.Fprintln(out, "go test does not start:", err)
		return false
	}
	r := newReport(out)
	r.read(events)
	err = cmd.Wait()
	r.summary(time.Since(began))
	return err == nil
}

// output is what a command prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(errs.String()+out.String()))
	}
	return out.String(), nil
}
