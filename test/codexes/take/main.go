// Command take makes another version of codex the pinned one of the tests: it writes the lock files, the tested version
// and the documents, and prints what the new protocol has and lacks. The one that was pinned stays, between it and the
// oldest, in place of one that no constant of package versions names.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"codex-proxy/codex/versions"
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
	old, err := installed(ctx)
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
	taken, err := installed(ctx)
	if err != nil {
		return err
	}
	return compare(ctx, out, codex{before, old}, codex{version, taken})
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

// lock pins the version, and changes those between.
func lock(ctx context.Context, before, version string) error {
	text, err := os.ReadFile(filepath.Join(betweenDir, "package.json"))
	if err != nil {
		return err
	}
	var about struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &about); err != nil {
		return err
	}
	orders := [][]string{{"install", "--prefix", pinnedDir, "--save-exact", "@openai/codex@" + version}}
	leaves, stays := between(slices.Collect(maps.Keys(about.Dependencies)), before, version)
	if leaves != "" {
		orders = append(orders, []string{"uninstall", "--prefix", betweenDir, leaves})
	}
	if stays {
		orders = append(orders, []string{"install", "--prefix", betweenDir, "--save-exact",
			namePrefix + before + "@npm:@openai/codex@" + before + "-linux-x64"})
	}
	for _, args := range orders {
		if err := run(ctx, "npm", append(args, "--package-lock-only", "--no-audit", "--no-fund", "--loglevel=error")...); err != nil {
			return err
		}
	}
	return nil
}

// namePrefix begins the names of the codexes between.
const namePrefix = "codex-"

// floors are the minor versions that constants name: the tests have to run them.
var floors = []int{versions.OldestForRemotes, versions.OldestForHere, versions.MarksResponses}

// between decides about the codexes between once a version is pinned: the newest one that is no floor leaves, and the one
// that was pinned before stays, unless all others are floors or it is of the same minor version.
func between(names []string, before, version string) (leaves string, stays bool) {
	minor := minorOf(before)
	if minor == minorOf(version) || slices.ContainsFunc(names, func(n string) bool { return minorOf(n) == minor }) {
		return "", false
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(floors, minorOf(n)) })
	if len(names) > 0 {
		leaves = slices.MaxFunc(names, func(a, b string) int { return minorOf(a) - minorOf(b) })
	}
	return leaves, leaves != "" || slices.Contains(floors, minor)
}

// minorOf is N of 0.N.M or codex-0.N.M.
func minorOf(version string) (minor int) {
	_, _ = fmt.Sscanf(strings.TrimPrefix(version, namePrefix), "0.%d.", &minor)
	return minor
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
