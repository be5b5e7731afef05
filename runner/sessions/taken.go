package sessions

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's names of objects
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/listing"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

// maxDiff bounds the changes of a session that this program takes, in bytes.
const maxDiff = 128 << 20

// taken has the changes of the commands of a session. The session wrote them, so they may have any content.
type taken struct {
	begin []byte // the patch from the commit of the repository to the state in which the session began, if asked for
	patch []byte // from there to the state after the last command
	// base is the commit of the repository, "" if it had none yet, and tree is the tree in which the session began, ""
	// if a patch changed it. These are not the session's word.
	base, tree string
	nested     []string
}

// take has a session print the changes of its commands, as its next command. Of a closed session, it takes those that
// it has printed last. began, unless nil, is called with the number of the command.
func take(ctx context.Context, c *client.Client, s wire.Session, begin bool, began func(int)) (*taken, error) {
	n, err := ask(ctx, c, s, begin)
	if err != nil {
		return nil, err
	}
	if began != nil {
		began(n)
	}
	var stdout, stderr bytes.Buffer
	end, err := c.ReadLog(ctx, client.Log{Session: s.ID, Command: n, Follow: true, Sink: func(chunk logs.Chunk) error {
		to := &stdout
		if chunk.Stream == logs.Stderr {
			to = &stderr
		}
		if to.Len()+len(chunk.Data) > maxDiff {
			return fmt.Errorf("the changes have more than %d bytes: keep files with run --artifact", maxDiff)
		}
		_, err := to.Write(chunk.Data)
		return err
	}})
	if err != nil {
		return nil, err
	}
	if o := end.Command.Outcome; o.Word != outcome.Succeeded {
		return nil, cli.Exit(RunnerFailed, fmt.Errorf("cannot find out the changes of the session %s: %s", s.ID,
			reason(o, stderr.String())))
	}
	return read(s, stdout.Bytes(), stderr.Bytes(), begin)
}

// reason is why the changes were not printed: the words of the step, or of the runner.
func reason(o *outcome.Outcome, stderr string) string {
	_, text, ok := strings.Cut(strings.TrimSpace(stderr), session.DiffStep+": ")
	switch {
	case ok && o.Word == outcome.Failed:
		return listing.Printable(text)
	case o.Word == outcome.OutputLimit:
		return "they are larger than the output of a command may be (output of [limits] in runner.toml): keep such files " +
			"with run --artifact"
	}
	return o.Text
}

// ask queues the command that prints the changes, and returns its number.
func ask(ctx context.Context, c *client.Client, s wire.Session, begin bool) (int, error) {
	if s.State != wire.SessionClosed {
		order := session.DiffOrder{Commit: s.Commit, Begin: begin}
		added, err := c.AddCommand(ctx, s.ID, wire.NewCommand{Args: order.Args()})
		return added.Number, err
	}
	if len(s.Commands) > 0 {
		last := s.Commands[len(s.Commands)-1]
		if session.IsDiff(last.Args) && last.Outcome != nil && last.Outcome.Word == outcome.Succeeded {
			return last.Number, nil
		}
	}
	return 0, fmt.Errorf("the session %s is closed, and its workspace is gone: use run --apply or --branch, or "+
		"run --keep and then diff", s.ID)
}

// read reads the output of the command.
func read(s wire.Session, stdout, stderr []byte, begin bool) (*taken, error) {
	var report session.DiffReport
	if err := json.Unmarshal(stderr, &report); err != nil {
		return nil, fmt.Errorf("the session %s reports its changes in a form that this program does not know: are the "+
			"program and the service of one version?", s.ID)
	}
	sum := sha256.Sum256(stdout)
	if hex.EncodeToString(sum[:]) != report.SHA256 || report.Begin < 0 || report.Begin > int64(len(stdout)) {
		return nil, fmt.Errorf("the changes of the session %s are not whole: a secret of it may be among them, which is "+
			"hidden in every output (codex-runner logs %[1]s shows where)", s.ID)
	}
	t := &taken{begin: stdout[:report.Begin], patch: stdout[report.Begin:], nested: report.Nested}
	if begin && report.Begin == 0 {
		t.begin = nil
	}
	if s.Commit == "" {
		return t, nil
	}
	if objectName(report.Object, len(s.Commit)) != s.Commit {
		return nil, fmt.Errorf("the session %s shows another commit than its own: make a new session", s.ID)
	}
	tree, parent, snapshot := workspace.ParseCommit(report.Object)
	if t.base = s.Commit; snapshot {
		t.base = parent
	}
	if s.Patch == "" {
		t.tree = tree
	}
	return t, nil
}

// objectName is git's name of a commit, with so many digits.
func objectName(commit []byte, digits int) string {
	sum := sha1.New() //nolint:gosec // git's choice
	if digits == hex.EncodedLen(sha256.Size) {
		sum = sha256.New()
	}
	_, _ = fmt.Fprintf(sum, "commit %d\x00", len(commit)) // a hash fails never
	_, _ = sum.Write(commit)
	return hex.EncodeToString(sum.Sum(nil))
}

// report names the files that are not among the changes.
func (t *taken) report(stderr io.Writer) {
	for _, name := range t.nested {
		fmt.Fprintf(stderr, "%s is a repository of its own, and not among the changes\n", listing.Printable(name))
	}
}
