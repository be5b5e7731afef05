package codexhome

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/internal/sqlite"
)

// TestMain makes this test binary a stand-in for codex if its name is codex: the real codex is a native binary
// too, and the package accepts nothing else.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "codex" {
		os.Exit(fakeCodex(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// fakeCodex answers with the files of FAKE_CODEX_DIR, and records its runs there.
func fakeCodex(args []string) int {
	dir := os.Getenv("FAKE_CODEX_DIR")
	line := strings.Join(args, " ")
	log, err := os.OpenFile(filepath.Join(dir, "runs"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 99
	}
	defer log.Close()
	fmt.Fprintln(log, line)
	answer := func(name, otherwise string) string {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			return string(text)
		}
		return otherwise
	}
	switch {
	case line == "hang":
		time.Sleep(time.Minute)
	case line == "--version":
		fmt.Print(answer("version", "codex-cli 0.169.0\n"))
	case line == "debug models --bundled":
		fmt.Print(answer("models", `{"models":[{"slug":"gpt-a","display_name":"A","base_instructions":"long"}]}`))
	case strings.HasPrefix(line, "login --"):
		key, _ := io.ReadAll(os.Stdin)
		fmt.Println("home " + os.Getenv("HOME") + ", key " + string(key))
		fmt.Fprintln(os.Stderr, "open the page")
		if strings.Contains(line, "--device-auth") && answer("approved", "") == "" {
			time.Sleep(time.Minute)
		}
	case strings.HasPrefix(line, "logout"):
		if text := answer("logout", ""); text != "" {
			fmt.Fprintln(os.Stderr, text)
			return 1
		}
	case line == "login status":
		if text := answer("login", ""); text != "" {
			fmt.Fprintln(os.Stderr, text)
			return 1
		}
		fmt.Fprintln(os.Stderr, answer("login-kind", "Logged in using ChatGPT"))
	case strings.HasPrefix(line, "sandbox"):
		if text := answer("nosandbox", ""); text != "" {
			fmt.Fprintln(os.Stderr, text)
			return 1
		}
		fmt.Print(answer("sandbox", ""))
	case strings.HasPrefix(line, "app-server"):
		if text := answer("refusal", ""); text != "" {
			fmt.Println(text)
			return 1
		}
	}
	return 0
}

// fake is a home with a worker file and a stand-in for codex.
type fake struct {
	*Home
	dir   string
	notes []string
}

func newFake(t *testing.T, worker string) *fake {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	// A copy, since codexhome resolves links and the result must still be named codex.
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/codex"), program, 0o755))
	t.Setenv("FAKE_CODEX_DIR", dir)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else each run under -race ends with a second of sleep
	f := &fake{Home: newHome(t, dir, worker), dir: dir}
	f.SearchPath = filepath.Join(dir, "bin")
	f.Note = func(line string) { f.notes = append(f.notes, line) }
	return f
}

// untraced makes codex's trace log as a start leaves it.
func (f *fake) untraced(t *testing.T) {
	t.Helper()
	path := filepath.Join(f.Dir, "logs_2.sqlite")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	db, err := sqlite.OpenForeign(path)
	require.NoError(t, err)
	_, err = db.Exec("CREATE TABLE logs (id INTEGER)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, ignoreInserts(context.Background(), path))
}

// newHome makes the directories that systemd makes for the unit.
func newHome(t *testing.T, dir, worker string) *Home {
	t.Helper()
	h := &Home{
		Worker: "w", File: filepath.Join(dir, "w.toml"), Dir: filepath.Join(dir, "state"),
		Self: "/usr/bin/codex-proxy", Runtime: filepath.Join(dir, "run"),
		Note: func(line string) { t.Log(line) },
	}
	require.NoError(t, os.MkdirAll(h.Dir, 0o700))
	require.NoError(t, os.MkdirAll(h.Runtime, 0o700))
	require.NoError(t, os.WriteFile(h.File, []byte(worker), 0o600))
	return h
}

// answers sets the fake's answer to a command.
func (f *fake) answers(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

// runs returns the command lines of codex since the last call.
func (f *fake) runs(t *testing.T) []string {
	t.Helper()
	log := filepath.Join(f.dir, "runs")
	text, err := os.ReadFile(log)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	require.NoError(t, os.Remove(log))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
