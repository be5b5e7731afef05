package sessions

import (
	"fmt"
	"io"
	"os"
	"strings"

	"codex-proxy/runner/setup"
	"codex-proxy/runner/workspace"
)

// ReadSetup returns the text of a file with a set-up; "" without a file.
func ReadSetup(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the set-up: %w", err)
	}
	_, err = setup.Parse(file, text)
	return string(text), err
}

// PrintSetup writes the set-up of the repository that dir is in, as a script with comments, or the one with the text
// given.
func PrintSetup(w io.Writer, dir, given string) error {
	dir, err := realPath(dir)
	if err == nil {
		dir, err = workspace.Top(dir)
	}
	if err != nil {
		return fmt.Errorf("--repo: %w", err)
	}
	script, parts, err := setup.Find(os.DirFS(dir), given)
	if err != nil {
		return err
	}
	if script == nil {
		return fmt.Errorf("no set-up fits %s: write %s there with a script (run = \"…\")", dir, setup.File)
	}
	_, err = fmt.Fprint(w, explained(script, parts, given))
	return err
}

// explained is the script below comments that name its sources.
func explained(script *setup.Script, parts []setup.Part, given string) string {
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
	return b.String()
}
