package sessions

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/workspace"
)

// PrintSetup writes the set-up of the repository that dir is in, as a script with comments.
func PrintSetup(w io.Writer, dir string) error {
	dir, err := realPath(dir)
	if err == nil {
		dir, err = workspace.Top(dir)
	}
	if err != nil {
		return fmt.Errorf("--repo: %w", err)
	}
	script, parts, err := setup.Find(os.DirFS(dir))
	if err != nil {
		return err
	}
	if script == nil {
		return fmt.Errorf("no set-up fits %s: write %s there with a script (run = \"…\")", dir, setup.File)
	}
	_, err = fmt.Fprint(w, explained(script, parts))
	return err
}

// explained is the script below comments that name its sources.
func explained(script *setup.Script, parts []setup.Part) string {
	var b strings.Builder
	if len(parts) == 0 {
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
	return b.String()
}

// wantsSetup names the ways of a set-up that a local repository needs if auto chooses no environment for it, or "".
// An unreadable file counts as absent: the session has the error.
func wantsSetup(dir string) string {
	files := os.DirFS(dir)
	if environment.Detect(files) != "none" {
		return ""
	}
	script, parts, err := setup.Find(files)
	if err != nil || script == nil {
		return ""
	}
	if len(parts) == 0 {
		return setup.File
	}
	var ways []string
	for _, p := range parts {
		if p.Run != "" {
			ways = append(ways, p.Way+" ("+filepath.Clean(p.Manifest)+")")
		}
	}
	return strings.Join(ways, ", ")
}

// hintSetup reports that the command gets no packages, though the repository has a set-up.
func (r *Run) hintSetup(dir string) {
	if ways := wantsSetup(dir); ways != "" {
		fmt.Fprintf(r.Stderr, "--repo %s: no environment fits, and --env setup would run its set-up first: %s "+
			"(--env none leaves this line out)\n", r.Source, ways)
	}
}
