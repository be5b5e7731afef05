package sessions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

var failedCommand = outcome.Outcome{Word: outcome.Failed, ExitStatus: 1, Text: "The command failed with status 1."}

// worker plays the sessions of one repository: it keeps a mirror, and a workspace for each session.
type worker struct {
	t      *testing.T
	r      *trial
	dir    string
	during func() // runs while a command of a user runs
	// report, unless nil, changes what a session reports.
	report func(*session.DiffReport)
}

func newWorker(t *testing.T) *worker {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("HOME"), ".gitconfig"),
		[]byte("[user]\n\tname = alice\n\temail = alice@example.org\n"), 0o600))
	w := &worker{t: t, dir: t.TempDir(), during: func() {}}
	w.r = try(t, w.command)
	w.r.Source = repository(t)
	return w
}

func (w *worker) command(c *apitest.Command) {
	mirror := filepath.Join(w.dir, "mirror")
	tree := filepath.Join(w.dir, c.Session)
	if c.Number == 1 && c.Of.Repository != "" {
		w.checkOut(c, mirror, tree)
	}
	if !session.IsDiff(c.Asked.Args) {
		w.during()
		cmd := exec.Command(c.Asked.Args[0], c.Asked.Args[1:]...)
		if cmd.Dir = tree; cmd.Run() != nil {
			c.End(failedCommand)
			return
		}
		c.End(succeeded)
		return
	}
	order, err := session.ParseDiffOrder(c.Asked.Args[2])
	assert.NoError(w.t, err)
	var text bytes.Buffer
	all, err := workspace.Diff{Source: workspace.Source{Mirror: mirror, Commit: order.Commit}, Tree: tree}.Write(w.t.Context(),
		order.Begin, &text)
	if err != nil {
		c.Write(logs.Stderr, "codex-runner-unit session-diff: "+err.Error()+"\n")
		c.End(failedCommand)
		return
	}
	sum := sha256.Sum256(text.Bytes())
	report := session.DiffReport{Object: all.Object, Begin: all.Begin, Bytes: int64(text.Len()), SHA256: hex.EncodeToString(sum[:]),
		Nested: all.Nested}
	if w.report != nil {
		w.report(&report)
	}
	line, err := json.Marshal(report)
	assert.NoError(w.t, err)
	c.Write(logs.Stdout, text.String())
	c.Write(logs.Stderr, string(line)+"\n")
	c.End(succeeded)
}

func (w *worker) checkOut(c *apitest.Command, mirror, tree string) {
	bundle := filepath.Join(w.dir, "bundle")
	assert.NoError(w.t, os.WriteFile(bundle, w.r.daemon.Bundle(c.Of.Repository), 0o600))
	m := workspace.Mirror{Dir: mirror, Time: time.Minute, Bytes: 1 << 30}
	assert.NoError(w.t, m.FetchBundle(w.t.Context(), bundle))
	record, err := os.Create(tree + ".record")
	assert.NoError(w.t, err)
	defer record.Close()
	assert.NoError(w.t, os.Mkdir(tree, 0o755))
	_, err = workspace.Checkout{Source: workspace.Source{Mirror: mirror, Commit: c.Of.Ref}, Tree: tree, Record: record}.Run(w.t.Context())
	assert.NoError(w.t, err)
}

// run runs a line of a shell, and returns the exit status and the text of the error.
func (w *worker) run(changes Changes, line string) (int, string) {
	w.t.Helper()
	w.r.New, w.r.Command.Args, w.r.Changes = wire.NewSession{}, []string{"sh", "-c", line}, changes
	w.r.stdout.Reset()
	w.r.stderr.Reset()
	return w.r.run(w.t)
}

func (w *worker) file(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.r.Source, name))
	require.NoError(w.t, err)
	return string(text)
}

// diff is codex-runner diff of the newest session.
func (w *worker) diff(d Diff) (patch, stderr string, err error) {
	w.t.Helper()
	all, err := w.r.Client.Sessions(w.t.Context(), client.Filter{})
	require.NoError(w.t, err)
	var stdout, text bytes.Buffer
	d.Client, d.Stdout, d.Stderr = w.r.Client, &stdout, io.Writer(&text)
	err = d.Run(w.t.Context(), all[0].ID)
	return stdout.String(), text.String(), err
}

// A person runs, changes, runs again, and takes the changes.
func TestTour(t *testing.T) {
	w := newWorker(t)
	status, text := w.run(ChangesClean, "cat file")
	require.Zero(t, status, text)

	w.r.Apply = true
	status, text = w.run(ChangesTaken, "echo two >file; printf '\\0' >binary; mkdir .venv; touch .venv/x")
	require.Zero(t, status, text)
	assert.Equal(t, "two\n", w.file("file"))
	assert.Contains(t, w.r.stderr.String(), "2 files changed in "+w.r.Source+" (git diff shows the changes)\n")
	assert.Equal(t, "M file\n?? binary", git(t, w.r.Source, "status", "--porcelain"))

	status, text = w.run(ChangesTaken, "grep two file && echo three >>file")
	require.Zero(t, status, text)
	assert.Equal(t, "two\nthree\n", w.file("file"), "the changes that the command had are no part of the patch")

	status, text = w.run(ChangesTaken, "true")
	require.Zero(t, status, text)
	assert.Contains(t, w.r.stderr.String(), "the command changed nothing\n")
	status, _ = w.run(ChangesTaken, "echo four >file; false")
	assert.Equal(t, 1, status)
	assert.Contains(t, w.r.stderr.String(), "the command did not succeed, and its changes are not taken\n")
	assert.Equal(t, "two\nthree\n", w.file("file"))

	w.r.Apply, w.r.Branch = false, "fix"
	status, text = w.run(ChangesTaken, "echo five >new")
	require.Zero(t, status, text)
	assert.NoFileExists(t, filepath.Join(w.r.Source, "new"))
	assert.Equal(t, "M file\n?? binary", git(t, w.r.Source, "status", "--porcelain"))
	assert.Equal(t, "alice codex-runner: sh -c 'echo five >new'\nalice Changes that were not committed\na two\na one",
		git(t, w.r.Source, "log", "--format=%an %s", "fix"))
	assert.Equal(t, "new", git(t, w.r.Source, "diff", "--name-only", "fix~1", "fix"))
	status, text = w.run(ChangesTaken, "echo five >new")
	assert.Equal(t, RunnerFailed, status)
	assert.Contains(t, text, "there is a branch fix: name another one, or remove it")
}

// A patch that does not fit changes nothing, and is kept.
func TestChangesThatDoNotFit(t *testing.T) {
	w := newWorker(t)
	w.r.Apply = true
	w.during = func() {
		assert.NoError(t, os.WriteFile(filepath.Join(w.r.Source, "file"), []byte("mine\n"), 0o644))
	}
	status, text := w.run(ChangesClean, "echo theirs >file; echo new >new")
	assert.Equal(t, RunnerFailed, status)
	assert.Contains(t, text, "and nothing was changed there")
	assert.Contains(t, text, "(codex-runner diff aaaaaaaaaaaaaaaa prints the patch)")
	assert.Equal(t, "mine\n", w.file("file"))
	assert.NoFileExists(t, filepath.Join(w.r.Source, "new"))
	patch, _, err := w.diff(Diff{})
	require.NoError(t, err)
	assert.Contains(t, patch, "+theirs\n")
	var shown, output bytes.Buffer
	view := View{Client: w.r.Client, Stdout: &shown}
	require.NoError(t, view.Show(t.Context(), "aaaaaaaaaaaaaaaa"))
	assert.Contains(t, shown.String(), "2. codex-runner diff\n")
	require.NoError(t, Output{Client: w.r.Client, Stdout: &output, Stderr: &output}.Show(t.Context(), "aaaaaaaaaaaaaaaa"))
	assert.Empty(t, output.String(), "logs is about the command of the user")
	_, _, err = w.diff(Diff{Branch: "fix"})
	require.NoError(t, err, "the commit has no other changes than the patch")
	assert.Equal(t, "theirs", git(t, w.r.Source, "show", "fix:file"))
}

func TestDiff(t *testing.T) {
	w := newWorker(t)
	w.r.Keep = true
	status, text := w.run(ChangesClean, "git clone -q . nested; echo new >new")
	require.Zero(t, status, text)
	patch, stderr, err := w.diff(Diff{})
	require.NoError(t, err)
	assert.Contains(t, patch, "+++ b/new\n")
	assert.Equal(t, "nested/ is a repository of its own, and not among the changes\n", stderr)
	_, stderr, err = w.diff(Diff{Branch: "fix"})
	require.NoError(t, err)
	assert.Contains(t, stderr, "the branch fix has the changes (git switch fix)\n")
	_, _, err = w.diff(Diff{Branch: "fix"})
	require.ErrorContains(t, err, "there is a branch fix")
	other := t.TempDir()
	git(t, other, "init", "--quiet")
	_, _, err = w.diff(Diff{Branch: "other", Repo: other})
	require.ErrorContains(t, err, "the repository lacks the commit")

	w.r.Keep = false
	status, text = w.run(ChangesClean, "true")
	require.Zero(t, status, text)
	_, _, err = w.diff(Diff{})
	require.ErrorContains(t, err, "is closed, and its workspace is gone: use run --apply or --branch, or run --keep and then diff")
}

// A session may report anything.
func TestDiffOfALiar(t *testing.T) {
	for want, report := range map[string]func(*session.DiffReport){
		"shows another commit than its own": func(r *session.DiffReport) { r.Object = append(r.Object, '\n') },
		"are not whole":                     func(r *session.DiffReport) { r.SHA256 = r.SHA256[1:] },
		"the changes of the session":        func(r *session.DiffReport) { r.Begin = r.Bytes + 1 },
	} {
		w := newWorker(t)
		w.r.Apply, w.report = true, report
		status, text := w.run(ChangesClean, "echo two >file")
		assert.Equal(t, RunnerFailed, status)
		assert.Contains(t, text, want)
		assert.Contains(t, text, "the session stays open (codex-runner diff aaaaaaaaaaaaaaaa asks again")
		assert.Equal(t, wire.SessionIdle, w.r.only(t).State)
		assert.Equal(t, "x", w.file("file"))
	}
	w := newWorker(t)
	w.r.Branch = "fix"
	require.NoError(t, os.WriteFile(filepath.Join(w.r.Source, "file"), []byte("mine\n"), 0o644))
	status, text := w.run(ChangesClean, "true")
	require.Zero(t, status, text)
	w.report = func(r *session.DiffReport) { r.Begin = 0 } // the changes of the caller become the session's
	status, text = w.run(ChangesTaken, "echo two >new")
	assert.Equal(t, RunnerFailed, status)
	assert.Contains(t, text, "cannot make the branch fix, and nothing was changed there")
	assert.Empty(t, git(t, w.r.Source, "branch", "--list", "fix"))
}

// A shallow clone takes its changes along, too.
func TestChangesOfAShallowClone(t *testing.T) {
	w := newWorker(t)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, ".", "clone", "--quiet", "--depth", "1", "file://"+w.r.Source, shallow)
	w.r.Source = shallow
	status, text := w.run(ChangesClean, "true")
	require.Zero(t, status, text)
	require.NoError(t, os.WriteFile(filepath.Join(shallow, "file"), []byte("two\n"), 0o644))
	w.r.Apply, w.r.Branch = true, "fix"
	status, text = w.run(ChangesTaken, "grep two file && echo three >>file && test $(git rev-list --count HEAD) = 1")
	require.Zero(t, status, text)
	assert.Equal(t, "two\nthree\n", w.file("file"))
	assert.Equal(t, "two\nthree", git(t, shallow, "show", "fix:file"))
}

// Names of objects may be of SHA-256.
func TestChangesWithSHA256(t *testing.T) {
	w := newWorker(t)
	w.r.Source = t.TempDir()
	git(t, w.r.Source, "init", "--quiet", "--object-format=sha256")
	git(t, w.r.Source, "commit", "--quiet", "--allow-empty", "-m", "one")
	status, text := w.run(ChangesClean, "true")
	require.Zero(t, status, text)
	require.NoError(t, os.WriteFile(filepath.Join(w.r.Source, "file"), []byte("two\n"), 0o644))
	w.r.Branch = "fix"
	status, text = w.run(ChangesTaken, "echo three >>file")
	require.Zero(t, status, text)
	assert.Equal(t, "two\nthree", git(t, w.r.Source, "show", "fix:file"))
}

// A session that was closed before its first command has no changes.
func TestChangesOfNoCommand(t *testing.T) {
	_, err := ask(t.Context(), nil, wire.Session{ID: "abcdefghijklmno2", State: wire.SessionClosed}, false)
	assert.ErrorContains(t, err, "the session abcdefghijklmno2 is closed, and its workspace is gone")
}
