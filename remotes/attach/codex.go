package attach

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/lazyregexp"
	"codex-proxy/remotes"
)

// oldest is the first version of codex with a TUI that attaches: see versions.OldestForRemotes.
var oldest = version{0, versions.OldestForRemotes, 0}

const install = "npm install -g @openai/codex@latest"

// versionBound bounds codex --version.
const versionBound = 10 * time.Second

func (a *Attach) program() (string, error) {
	path, err := exec.LookPath(a.Codex)
	if err != nil {
		return "", fmt.Errorf("cannot find codex on this machine (%s): %s installs it", a.Codex, install)
	}
	return path, nil
}

// suitable returns the version of codex, and names one that is too old.
func suitable(ctx context.Context, program string) (version, error) {
	v, err := versionOf(ctx, program)
	if err == nil && v.before(oldest) {
		err = fmt.Errorf("codex %s (%s) is too old for remotes, which need %s or newer: %s", v, program, oldest, install)
	}
	return v, err
}

// compare names the versions of the person and of the remote if they differ by more than a patch: a TUI may
// then send requests that the other codex does not know.
func (a *Attach) compare(own version, st remotes.Status) {
	remote, known := parseVersion(st.Codex)
	if known && (own[0] != remote[0] || own[1] != remote[1]) {
		fmt.Fprintf(a.Stderr, "This is codex %s, and the remote %s runs codex %s. If something fails: "+
			"npm install -g @openai/codex@%s\n", own, a.Remote, remote, remote)
	}
}

type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func (v version) before(w version) bool {
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

var versionForm = lazyregexp.New(`(\d+)\.(\d+)\.(\d+)`)

// versionOf reads the version from the package of npm that the program lies in, as a start of node takes long; another
// program is asked.
func versionOf(ctx context.Context, program string) (v version, err error) {
	text := packageVersion(program)
	if text == "" {
		ctx, cancel := context.WithTimeout(ctx, versionBound)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, "--version").Output()
		if err != nil {
			return v, fmt.Errorf("cannot ask %s for its version: %w", program, err)
		}
		text = string(out)
	}
	v, known := parseVersion(text)
	if !known {
		return v, fmt.Errorf("%s is no codex: it gives its version as %.100q", program, text)
	}
	return v, nil
}

// parseVersion finds the first version in a text.
func parseVersion(text string) (v version, known bool) {
	found := versionForm.FindStringSubmatch(text)
	for i := range v {
		if found != nil {
			v[i], _ = strconv.Atoi(found[i+1]) // digits
		}
	}
	return v, found != nil
}

// packageDepth is how far a program of the package lies below its package.json: vendor/TARGET/bin/codex.
const packageDepth = 4

// packageVersion is the version of the package @openai/codex, or of the one with its program for this machine, that
// the program lies in; empty for others.
func packageVersion(program string) string {
	dir, err := filepath.EvalSymlinks(program)
	if err != nil {
		return ""
	}
	for range packageDepth {
		dir = filepath.Dir(dir)
		b, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err != nil {
			continue
		}
		var p struct{ Name, Version string }
		if json.Unmarshal(b, &p) == nil && strings.HasPrefix(p.Name, "@openai/codex") {
			return p.Version
		}
		return ""
	}
	return ""
}
