package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sessions"
)

var runTool = mcp.Tool{
	Name: "run", Title: "Run a command in a sandbox", Annotations: running, InputSchema: schema(),
	Description: `Runs a command in a sandbox, waits for its end, and returns how it ended with the end of its output.
Without session it makes a new session; the session stays open for further calls of run and patch. With session it is
the next command there. The working directory is /workspace: a checkout of repository at its commit, without changes that
are not committed unless dirty is true, or empty. HOME is /run/codex-home, and stays until the session is closed. /workspace, HOME and /tmp can be written, all else is read-only, and
/tmp is new for each command. The programs are those of the host in PATH; /home and /root are hidden. With a repository,
environment is auto: a build with the network has made it ready by .codex-runner.toml or its manifests, in any language,
with packages in the workspace and caches in HOME, which the command can change; if a command changes a manifest, the
set-up runs again before the next one, with the network of the session. With none, HOME is empty and the command can
install packages itself. There is no network unless network is true. All processes of a command end with it, also those in the background: start a server and
its client in one command. Without limits of its own a command gets those of the administrator: as installed 30m of time,
2G of memory, 1024 processes, 64M of output. If wait is over first, the command goes on: call logs. If this call is
cancelled, so is the command.`,
}

// limits are the limits of a command.
type limits struct {
	Timeout string  `json:"timeout,omitempty" jsonschema:"how long it may run, such as 10m"`
	Grace   string  `json:"grace,omitempty" jsonschema:"the time from SIGTERM to SIGKILL then, such as 5s"`
	CPUs    float64 `json:"cpus,omitempty" jsonschema:"such as 0.5 or 2"`
	Memory  string  `json:"memory,omitempty" jsonschema:"of all its processes, such as 2G"`
	Tasks   int64   `json:"tasks,omitempty" jsonschema:"processes and threads"`
	Output  string  `json:"output_limit,omitempty" jsonschema:"the most output before it is ended, such as 64M"`
	File    string  `json:"file_size,omitempty" jsonschema:"of each file that it writes, such as 1G"`
	Disk    string  `json:"disk,omitempty" jsonschema:"of the workspace, such as 4G"`
}

type runInput struct {
	Command     words             `json:"command" jsonschema:"the program and its arguments, without a shell; or a string, which is a line for sh"`
	Session     string            `json:"session,omitempty" jsonschema:"the session to go on in"`
	Repository  string            `json:"repository,omitempty" jsonschema:"of a new session: a directory of this host, whose commits count, or a URL"`
	Ref         string            `json:"ref,omitempty" jsonschema:"of a new session: branch, tag or commit; without it the one of HEAD"`
	Dirty       bool              `json:"dirty,omitempty" jsonschema:"of a new session: take along the changes of the directory that are not committed, new files too, and not those that git ignores"`
	Patch       string            `json:"patch,omitempty" jsonschema:"of a new session: a diff to apply to the checkout, as git diff HEAD prints it"`
	Environment string            `json:"environment,omitempty" jsonschema:"of a new session: auto (the default with a repository: its set-up if one fits), setup, none, conda or micromamba"`
	SetUp       string            `json:"setup,omitempty" jsonschema:"of a new session: the text of a .codex-runner.toml in place of the one of the repository"`
	Network     bool              `json:"network,omitempty" jsonschema:"of a new session: let its commands use the network"`
	Directory   string            `json:"directory,omitempty" jsonschema:"the working directory, relative to the workspace"`
	Env         map[string]string `json:"env,omitempty" jsonschema:"variables of its environment"`
	Stdin       string            `json:"stdin,omitempty" jsonschema:"its standard input"`
	Artifacts   []string          `json:"artifacts,omitempty" jsonschema:"globs of files of the workspace to keep"`
	limits
	Close     bool   `json:"close,omitempty" jsonschema:"of a new session: close it when the command has ended"`
	Wait      string `json:"wait,omitempty" jsonschema:"how long this call waits for the end at most; 45s without it, 0s returns at once"`
	MaxOutput int    `json:"max_output,omitempty" jsonschema:"bytes of output in the answer; 16384 without it"`
}

func (s *Server) run(ctx context.Context, c *call, in runInput) (report, error) {
	b, err := bounded(in.Wait, defaultWait, in.MaxOutput)
	if err != nil {
		return report{}, err
	}
	next, err := in.command()
	if err != nil {
		return report{}, err
	}
	if in.Session != "" {
		if err := in.onlySession(); err != nil {
			return report{}, err
		}
		return s.next(ctx, c, in.Session, next, in.Stdin, b)
	}
	created := wire.NewSession{
		Patch: in.Patch, Environment: in.Environment, SetUp: in.SetUp, Network: in.Network, Commands: []wire.NewCommand{next},
	}
	var notes []string
	if in.Repository != "" {
		if notes, err = s.repository(ctx, in, &created); err != nil {
			return report{}, err
		}
	} else if in.Ref != "" || in.Patch != "" || in.Dirty {
		return report{}, errors.New("ref, patch and dirty are of a repository: name it, too")
	}
	// A call that is cancelled meanwhile needs the answer, to cancel the command. The daemon fetches a URL before it
	// answers, and makes no session for a client that has gone.
	making := context.WithoutCancel(ctx)
	if created.Repository == in.Repository && in.Repository != "" {
		making = ctx
	}
	session, err := s.Client.CreateSession(making, created)
	if err != nil {
		return report{}, err
	}
	r, err := s.attend(ctx, c, attended{session.ID, 1, true}, next, in.Stdin, b)
	r.Notes = append(r.Notes, notes...)
	if in.Close && err == nil && r.State == string(wire.CommandEnded) {
		if _, err := s.Client.Cancel(ctx, session.ID, 0); err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("The session stays open: %v.", err))
		}
	}
	return r, err
}

// repository sets the repository of a new session by the parameters.
func (s *Server) repository(ctx context.Context, in runInput, to *wire.NewSession) (notes []string, err error) {
	from := sessions.Source{Client: s.Client, Name: "repository", Where: in.Repository, Ref: in.Ref}
	if in.Dirty && in.Ref != "" {
		return nil, errors.New("dirty has the changes of the commit that is checked out: leave it or ref out")
	}
	if in.Dirty {
		from.Changes = sessions.ChangesTaken
	}
	found, err := from.Send(ctx)
	if err != nil {
		return nil, err
	}
	to.Repository, to.Ref = found.Repository, found.Ref
	to.Commands[0].Directory = cmp.Or(to.Commands[0].Directory, found.Within)
	if in.Ref == "" && in.Patch == "" && !in.Dirty && found.Changed(ctx) {
		notes = append(notes, "The directory has changes that are not committed, and the command ran without them: "+
			"dirty takes them along.")
	}
	if found.LFS(ctx) {
		notes = append(notes, "The repository has files in Git LFS, and the workspace has their pointers: "+
			"`git lfs pull` with the network fetches them.")
	}
	return notes, nil
}

// next runs the next command of a session.
func (s *Server) next(ctx context.Context, c *call, id string, n wire.NewCommand, stdin string,
	b bounds) (report, error) {
	if err := paths.CheckID(id); err != nil {
		return report{}, err
	}
	added, err := s.Client.AddCommand(context.WithoutCancel(ctx), id, n)
	if err != nil {
		return report{}, err
	}
	return s.attend(ctx, c, attended{session: id, number: added.Number}, n, stdin, b)
}

// attended is a command that a call waits for.
type attended struct {
	session string
	number  int
	begins  bool // its session, which the agent does not know yet
}

// attend sends the input of a command and follows it. If the call is cancelled, so is the command.
func (s *Server) attend(ctx context.Context, c *call, of attended, n wire.NewCommand, stdin string,
	b bounds) (report, error) {
	if n.Stdin {
		if _, err := s.Client.PutStdin(ctx, of.session, of.number, strings.NewReader(stdin)); err != nil {
			s.cancelled(ctx, of)
			return report{}, fmt.Errorf("cannot send the standard input: %w", err)
		}
	}
	r, err := s.follow(ctx, c, of.session, of.number, b)
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		s.cancelled(ctx, of)
		return r, err
	}
	return r, fmt.Errorf("%w; it is command %d of the session %s", err, of.number, of.session)
}

// cancelled cancels a command, although the call has ended, and closes the session that begins with it.
func (s *Server) cancelled(ctx context.Context, of attended) {
	number := of.number
	if of.begins {
		number = 0
	}
	ctx = context.WithoutCancel(ctx)
	err := s.Client.Again(ctx, func() error {
		_, err := s.Client.Cancel(ctx, of.session, number)
		return err
	})
	if err != nil {
		s.Logger.Error("cannot cancel a command", "session", of.session, "command", of.number, "error", err)
	}
}

// command is the command of the parameters.
func (in runInput) command() (wire.NewCommand, error) {
	n := wire.NewCommand{
		Args: in.Command, Directory: in.Directory, Env: in.Env, Stdin: in.Stdin != "", Artifacts: in.Artifacts,
	}
	if len(in.Command) == 0 || in.Command[0] == "" {
		return n, errors.New("command is empty: want the program and its arguments")
	}
	var err error
	n.Limits, err = in.wire()
	return n, err
}

// onlySession refuses parameters of a new session.
func (in runInput) onlySession() error {
	for name, set := range map[string]bool{
		"repository": in.Repository != "", "ref": in.Ref != "", "patch": in.Patch != "", "dirty": in.Dirty,
		"environment": in.Environment != "", "setup": in.SetUp != "", "network": in.Network, "close": in.Close,
	} {
		if set {
			return fmt.Errorf("%s is of a new session: leave it or session out", name)
		}
	}
	return nil
}

// wire returns the limits as the API has them. They are written as the options of codex-runner run.
func (l limits) wire() (wire.Limits, error) {
	to := wire.Limits{CPUs: l.CPUs, Tasks: l.Tasks}
	for _, one := range []struct {
		name, text string
		value      interface{ Set(string) error }
	}{
		{"timeout", l.Timeout, cli.Duration((*time.Duration)(&to.Timeout))},
		{"grace", l.Grace, cli.Duration((*time.Duration)(&to.Grace))},
		{"memory", l.Memory, cli.Bytes(&to.Memory)},
		{"output_limit", l.Output, cli.Bytes(&to.Output)},
		{"file_size", l.File, cli.Bytes(&to.FileSize)},
		{"disk", l.Disk, cli.Bytes(&to.Disk)},
	} {
		if one.text == "" {
			continue
		}
		if err := one.value.Set(one.text); err != nil {
			return to, fmt.Errorf("%s=%q: %w", one.name, one.text, err)
		}
	}
	return to, nil
}
