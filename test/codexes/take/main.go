// Command take makes another version of codex the pinned one of the tests: it writes the lock files, the tested version
// and the documents, and prints what the new protocol has and lacks. The one that was pinned stays, between it and the
// oldest.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	pinnedDir  = "test/codex"
	betweenDir = "test/codex/between"
)

var versionForm = regexp.MustCompile(`^0\.\d+\.\d+$`)

func main() {
	version := flag.String("version", "", "of codex, such as 0.172.0")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := take(ctx, *version, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "take:", err)
		os.Exit(1) //nolint:gocritic // stop ends with the process
	}
}

func take(ctx context.Context, version string, out io.Writer) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("%q is no version: make codex VERSION=0.172.0", version)
	}
	before, err := pinned()
	if err != nil {
		return err
	}
	if before != version {
		if err := lock(ctx, before, version); err != nil {
			return err
		}
	}
	if err := write(version); err != nil {
		return err
	}
	return compare(ctx, out, before, version)
}

// pinned is the version in the lock of the pinned codex.
func pinned() (string, error) {
	text, err := os.ReadFile(filepath.Join(pinnedDir, "package.json"))
	if err != nil {
		return "", err
	}
	var about struct{ Dependencies map[string]string }
	err = json.Unmarshal(text, &about)
	return about.Dependencies["@openai/codex"], err
}

// lock pins the version, and keeps the one before in the place of the newest between.
func lock(ctx context.Context, before, version string) error {
	file := filepath.Join(betweenDir, "package.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var about struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &about); err != nil {
		return err
	}
	newest := slices.MaxFunc(slices.Collect(names(about.Dependencies)), compareVersions)
	for _, args := range [][]string{
		{"install", "--prefix", pinnedDir, "--save-exact", "@openai/codex@" + version},
		{"uninstall", "--prefix", betweenDir, newest},
		{"install", "--prefix", betweenDir, "--save-exact", "codex-" + before + "@npm:@openai/codex@" + before + "-linux-x64"},
	} {
		if err := run(ctx, "npm", append(args, "--package-lock-only", "--no-audit", "--no-fund", "--loglevel=error")...); err != nil {
			return err
		}
	}
	return nil
}

func names(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

// compareVersions compares codex-0.N.M.
func compareVersions(a, b string) int {
	var of [2][2]int
	for i, name := range []string{a, b} {
		_, _ = fmt.Sscanf(name, "codex-0.%d.%d", &of[i][0], &of[i][1])
	}
	return slices.Compare(of[0][:], of[1][:])
}

// write writes the version where the sources and documents have it.
func write(version string) error {
	minor := strings.Split(version, ".")[1]
	for file, form := range map[string][2]string{
		"codex/versions/versions.go": {`Tested = \d+`, "Tested = " + minor},
		"docs/features.md":           {`Tested with codex 0\.\d+;`, "Tested with codex 0." + minor + ";"},
		"README.md":                  {`Ready: codex \S+,`, "Ready: codex " + version + ","},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, regexp.MustCompile(form[0]).ReplaceAll(text, []byte(form[1])), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
