package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/configuration.md and docs/runner-configuration.md")

// The documents about settings have the text of the reference files.
func TestConfigurationInTheDocs(t *testing.T) {
	_, err := made() // in the repository's root from here on
	require.NoError(t, err)
	proxy, err := os.ReadFile(proxyFile)
	require.NoError(t, err)
	worker, err := os.ReadFile(workerFile)
	require.NoError(t, err)
	dependency, err := os.ReadFile(dependencyFile)
	require.NoError(t, err)
	remote, err := os.ReadFile(remoteFile)
	require.NoError(t, err)
	runner, err := os.ReadFile(runnerFile)
	require.NoError(t, err)
	for path, want := range map[string]string{
		"docs/configuration.md":        configuration(string(proxy), string(worker), string(dependency), string(remote)),
		"docs/runner-configuration.md": runnerConfiguration(string(runner)),
	} {
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), "run: go test ./packaging/manual -run ConfigurationInTheDocs -update")
	}
}

var (
	setting   = regexp.MustCompile(`^(?:# ?)?("[^"]+"|[A-Za-z_][A-Za-z0-9_.-]*) = \S`)
	tableHead = regexp.MustCompile(`^(?:# ?)?\[{1,2}[A-Za-z0-9_."-]+\]{1,2}$`)
)

// runnerConfiguration is docs/runner-configuration.md, likewise.
func runnerConfiguration(runner string) string {
	return `# Configuration of codex-runner

This page is made from the reference file in the package, ` + "`/etc/codex-runner/runner.toml`" + `. codex-runner.toml(5) has the same text.

## runner.toml
` + markdownOf(runner)
}

// configuration is docs/configuration.md: the reference files, in the form of the
// other documents.
func configuration(proxy, worker, dependency, remote string) string {
	var b strings.Builder
	b.WriteString(`# Configuration

This page is made from the reference files in the package. codex-proxy.toml(5), codex-worker.toml(5), codex-dependency.toml(5) and codex-remote.toml(5) have the same text.

| file | holds | takes effect |
|---|---|---|
| ` + "`/etc/codex-proxy/config.toml`" + ` | settings of the daemon | ` + "`systemctl reload codex-proxy`" + `; no request is lost |
| ` + "`/etc/codex-proxy/workers/NAME.toml`" + ` | settings of a worker | ` + "`systemctl restart codex-worker@NAME`" + `, which finishes its turns first; for a new or removed file a reload of the daemon, too; for ` + "`network`" + `, and with ` + "`network = \"model\"`" + ` for ` + "`credential`" + ` and ` + "`ca_file`" + `, a ` + "`systemctl daemon-reload`" + ` before |
| ` + "`/etc/codex-proxy/dependencies/NAME.toml`" + ` | a server beside the daemon | ` + "`systemctl daemon-reload`" + `, then ` + "`systemctl restart codex-dependency@NAME`" + ` |
| ` + "`/etc/codex-proxy/remotes/NAME.toml`" + ` | a codex session that people attach to | ` + "`systemctl daemon-reload`" + `, then ` + "`systemctl restart codex-remote@NAME.socket codex-remote@NAME`" + `; cut turns go on |
| ` + "`/etc/codex-proxy/api-keys`" + ` | API keys and their limits | at once, by ` + "`codex-proxy keys`" + ` |
| ` + "`/etc/codex-proxy/traces-headers`" + ` | headers for the collector of traces | when codex-proxy-traces.service starts again |
| drop-ins (` + "`systemctl edit`" + `) | restarts, watchdog, address, limits of memory and CPU | see ` + "[operations.md](operations.md#drop-ins)" + ` |

` + "`codex-proxy config check`" + ` finds mistakes, ` + "`codex-proxy serve --set KEY=VALUE`" + ` overrides one setting of the daemon. The address belongs to codex-proxy.socket. The [glossary](architecture.md#glossary) explains the words.
`)
	fmt.Fprintf(&b, "\n## config.toml\n%s\n## workers/NAME.toml\n%s\n## dependencies/NAME.toml\n%s\n## remotes/NAME.toml\n%s",
		markdownOf(proxy), markdownOf(worker), markdownOf(dependency), markdownOf(remote))
	return b.String()
}

// markdownOf is a reference file: text is text, settings are headings over what
// the comment above them, and the rest is code.
func markdownOf(text string) string {
	var b strings.Builder
	for _, block := range paragraphs(lines(text)) {
		last := block[len(block)-1]
		above := block[:len(block)-1]
		if !anySetting(above) && (setting.MatchString(last) || tableHead.MatchString(last)) {
			fmt.Fprintf(&b, "\n### `%s`\n", strings.TrimLeft(last, "# "))
			document(&b, above)
		} else {
			document(&b, block)
		}
	}
	return b.String()
}

func document(b *strings.Builder, rows []string) {
	for i := 0; i < len(rows); {
		kind, end := kindOf(rows[i]), i+1
		for end < len(rows) && kindOf(rows[end]) == kind {
			end++
		}
		part := make([]string, end-i)
		for n, row := range rows[i:end] {
			part[n] = strings.TrimPrefix(row, "#")
		}
		switch kind {
		case kindCode:
			code := strings.Join(unindent(part), "\n")
			fmt.Fprintf(b, "\n```%s\n%s\n```\n", languageOf(code), code)
		case kindText:
			fmt.Fprintf(b, "\n%s\n", strings.Join(strings.Fields(strings.Join(part, " ")), " "))
		}
		i = end
	}
}

// languageOf distinguishes commands from settings and words.
func languageOf(code string) string {
	if program, _, _ := strings.Cut(code, " "); program == "systemctl" || program == "codex-proxy" {
		return "sh (not run by the tests: those of operations.md are)"
	}
	return ""
}

func anySetting(rows []string) bool {
	for _, row := range rows {
		if setting.MatchString(row) || tableHead.MatchString(row) {
			return true
		}
	}
	return false
}

type kind int

const (
	kindText kind = iota
	kindCode
	kindBreak
)

func kindOf(row string) kind {
	content := strings.TrimPrefix(row, "#")
	switch {
	case strings.TrimSpace(content) == "":
		return kindBreak
	case setting.MatchString(row), tableHead.MatchString(row), strings.HasPrefix(content, "  "),
		!strings.HasPrefix(row, "#"):
		return kindCode
	}
	return kindText
}

// paragraphs splits lines at the empty ones, and where indented ones begin.
func paragraphs(rows []string) [][]string {
	var all [][]string
	var block []string
	for _, row := range append(rows, "") {
		empty := strings.TrimSpace(row) == ""
		begins := block != nil && indent(row) > 0 && indent(block[0]) == 0
		if block != nil && (empty || begins) {
			all, block = append(all, block), nil
		}
		if !empty {
			block = append(block, row)
		}
	}
	return all
}

func indent(row string) int { return len(row) - len(strings.TrimLeft(row, " ")) }

// unindent takes away the indentation that all rows have.
func unindent(rows []string) []string {
	least := indent(rows[0])
	for _, row := range rows {
		if strings.TrimSpace(row) != "" {
			least = min(least, indent(row))
		}
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = row[min(least, len(row)):]
	}
	return out
}
