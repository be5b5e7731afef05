package sessions

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/sandbox"
)

// plan shows how the session would run.
func (r *Run) plan(ctx context.Context) error {
	plan, err := r.Client.Plan(ctx, r.New)
	if err != nil {
		return err
	}
	source := r.planned(ctx)
	return show(r.view(), plan, nil, func(w io.Writer, p wire.Plan, _ time.Time) { writePlan(w, p, source) })
}

// planned is the script of the session's set-up, line by line. The files of a local repository decide, which the
// service cannot read.
func (r *Run) planned(ctx context.Context) []string {
	name, err := environment.Find(cmp.Or(r.New.Environment, environment.Auto))
	switch {
	case err != nil || !environment.IsSetup(name): // the service has the error
		return nil
	case r.Source == "" && r.New.SetUp == "":
		return nil
	case r.top == "" && r.New.SetUp == "":
		return []string{"the script follows from the files of the commit"}
	}
	script, err := explained(ctx, r.top, r.New.SetUp)
	switch {
	case err != nil:
		return []string{err.Error()}
	case script == "" && name == environment.Setup:
		return []string{"no set-up fits " + r.top + ": the command would not run"}
	case script == "":
		return []string{"no set-up fits " + r.top + ": the programs of the host alone"}
	}
	return strings.Split(strings.TrimRight(script, "\n"), "\n")
}

// writePlan writes how a session would run.
func writePlan(w io.Writer, p wire.Plan, source []string) {
	f := newFields(w)
	f.text("workspace", listing.Printable(p.Workspace))
	f.text("commit", p.Commit)
	f.text("environment", p.Environment)
	for _, line := range source {
		f.text("", listing.Printable(line))
	}
	f.text("network", network(p.Network))
	writeSandbox(f, p.Sandbox)
	f.text("unit", "an instance of "+p.Unit)
	for _, property := range p.Properties {
		f.text("", property)
	}
	for _, c := range p.Commands {
		f.text("command", commandLine(c.Args))
		f.text("directory", listing.Printable(c.Directory))
		f.text("limits", limits(c.Limits))
	}
	if p.Position > 0 {
		f.add("queue", "place %d", p.Position)
	} else {
		f.text("queue", "starts at once")
	}
	f.flush()
}

func network(online bool) string {
	if online {
		return "the host's"
	}
	return "none"
}

// writeSandbox writes where the command finds programs, and which variables the settings give it.
func writeSandbox(f fields, s wire.PlanSandbox) {
	home := ""
	if s.UserToolchains && os.Geteuid() != 0 {
		home, _ = os.UserHomeDir() // without one there is nothing to show
	}
	programs := sandbox.Settings{Path: s.Path, Toolchains: s.Toolchains}.Planned(s.Usual, home)
	f.text("path", listing.Printable(programs.Path))
	for i, line := range programs.Toolchains {
		name := ""
		if i == 0 {
			name = "toolchains"
		}
		f.text(name, listing.Printable(line))
	}
	f.text("variables", strings.Join(s.Variables, " "))
}
