package sessions

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/workspace"
)

// ReadSetup returns the text of a file with a set-up; "" without a file.
func ReadSetup(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	var text []byte
	from, err := os.Open(file)
	if err == nil {
		defer from.Close()
		text, err = io.ReadAll(io.LimitReader(from, setup.MaxGiven+1))
	}
	if err == nil && len(text) > setup.MaxGiven {
		err = fmt.Errorf("%s has more than %d KiB: call a script of the repository in it", file, setup.MaxGiven>>10)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the set-up: %w", err)
	}
	_, err = setup.Parse(file, text)
	return string(text), err
}

// PrintSetup writes the set-up of the repository that dir is in, as a script with comments, or the one with the text
// given.
func PrintSetup(ctx context.Context, w io.Writer, dir, given string) error {
	dir, err := realPath(dir)
	if err == nil {
		dir, err = workspace.Top(dir)
	}
	if err != nil {
		return fmt.Errorf("--repo: %w", err)
	}
	script, err := explained(ctx, dir, given)
	if err == nil && script == "" {
		return fmt.Errorf("no set-up fits %s: write %s there with a script (run = \"…\")", dir, setup.File)
	}
	if err == nil {
		_, err = fmt.Fprint(w, script)
	}
	return err
}

// find returns the script of a set-up, less the parts that lack programs in sessions of this user. A user gets the
// whole script if some of the directories of programs are closed to the user, or belong to another one: FindOn asks
// programs for their versions.
func find(ctx context.Context, dir, given string) (*setup.Script, []setup.Part, setup.LeftOut, error) {
	settings, _ := sandbox.Read(paths.Settings) // without them, sessions have the usual programs
	home := ""
	if settings.UserToolchains && os.Geteuid() != 0 {
		home, _ = os.UserHomeDir() // without one there is nothing to show
	}
	if planned := settings.Planned(filepath.SplitList(sandbox.UnitPath), home); !planned.Closed && trusted(planned.OnHost) {
		return setup.FindOn(ctx, environment.Host{Path: planned.OnHost}, os.DirFS(dir), given)
	}
	script, parts, err := setup.Find(os.DirFS(dir), given)
	return script, parts, setup.LeftOut{}, err
}

// trusted reports whether all directories of PATH belong to root or to this user.
func trusted(path string) bool {
	for _, dir := range filepath.SplitList(path) {
		info, err := os.Stat(dir)
		if err != nil {
			continue // nothing runs from there
		}
		if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != 0 && owner != os.Geteuid() {
			return false
		}
	}
	return true
}

// explained is the script below comments that name its sources, or "" if nothing fits.
func explained(ctx context.Context, dir, given string) (string, error) {
	script, parts, left, err := find(ctx, dir, given)
	if err != nil || script == nil {
		return "", err
	}
	var b strings.Builder
	switch {
	case given != "":
		b.WriteString("# by --setup\n")
	case len(parts) == 0:
		fmt.Fprintf(&b, "# by %s\n", setup.File)
	}
	for _, p := range parts {
		fmt.Fprintf(&b, "# %s, by %q\n", p.Way, p.Manifest)
	}
	fmt.Fprintf(&b, "# again when these change: %s\n", strings.Join(script.Inputs, " "))
	if script.Dir != "" {
		fmt.Fprintf(&b, "# in %q\n", script.Dir)
	}
	for _, dir := range script.Path {
		fmt.Fprintf(&b, "# first in PATH: %q\n", dir)
	}
	b.WriteString(strings.TrimRight(script.Run, "\n") + "\n")
	if script.Test != "" {
		b.WriteString("# then once, without the network, for the results:\n" + strings.TrimRight(script.Test, "\n") + "\n")
	}
	for _, note := range left.Notes {
		fmt.Fprintf(&b, "# %s\n", note)
	}
	return b.String(), nil
}
