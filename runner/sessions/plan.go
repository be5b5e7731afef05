package sessions

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/setup"
)

// plan shows how the session would run.
func (r *Run) plan(ctx context.Context) error {
	plan, err := r.Client.Plan(ctx, r.New)
	if err != nil {
		return err
	}
	source := r.planned()
	return show(r.view(), plan, nil, func(w io.Writer, p wire.Plan, _ time.Time) { writePlan(w, p, source) })
}

// planned explains the sources of the packages of the session, line by line. The files of a local repository decide,
// which the service cannot read.
func (r *Run) planned() []string {
	name := r.New.Environment
	switch {
	case r.top == "" && name == environment.Setup:
		return []string{"the script follows from the files of the commit"}
	case r.top == "":
		return nil
	case name == environment.Setup:
		return plannedSetup(r.top)
	case name == "" || name == environment.Auto:
		found := environment.Detect(os.DirFS(r.top))
		if found == "none" {
			return []string{"no manifest of an environment is in " + r.top + ": the packages of the host"}
		}
		return []string{"by the manifests in " + r.top + ": " + found}
	}
	return nil
}

// plannedSetup is the script of a set-up, as PrintSetup has it.
func plannedSetup(top string) []string {
	script, parts, err := setup.Find(os.DirFS(top))
	switch {
	case err != nil:
		return []string{err.Error()}
	case script == nil:
		return []string{"no set-up fits " + top + ": the command would not run"}
	}
	return strings.Split(strings.TrimRight(explained(script, parts), "\n"), "\n")
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
