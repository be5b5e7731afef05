package remotescli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"codex-proxy/internal/cli"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/remotescheck"
	"codex-proxy/units"
)

// Check prints the plan of a remote's unit, and each fault that prevents its start with the remedy. With a fault the
// exit status is 78.
func (r *Remotes) Check(ctx context.Context, name string) error {
	s, err := remoteconfig.Load(r.fileOf(name))
	if err != nil {
		return cli.Exit(cli.Config, err)
	}
	unit, err := r.describe(ctx, units.Remote(name))
	if err != nil {
		return err
	}
	if err := r.writePlan(s, unit); err != nil {
		return err
	}
	faults := remotescheck.Faults(s)
	for _, fault := range faults {
		r.print("fault: %s", fault)
	}
	if len(faults) > 0 {
		return cli.Exit(cli.Config, fmt.Errorf("%s cannot start", units.Remote(name)))
	}
	return nil
}

// writePlan writes the plan.
func (r *Remotes) writePlan(s *remoteconfig.Settings, unit units.Description) error {
	out := tabwriter.NewWriter(r.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s is valid.\n\n", s.File)
	for _, line := range [][2]string{
		{"unit", unitWords(unit)},
		{"directory", s.Directory},
		{"hands", handsWords(s)},
		{"user", userWords(s)},
		{"attach", attachWords(s)},
		{"writes", writesWords(s)},
		{"hidden", "/home, /root and /srv beside that, /run, other remotes, the processes, terminals and /tmp of others, the key"},
		{"network", networkWords(s.Network)},
		{"model", modelWords(s)},
		{"limits", limitWords(s)},
		{"cut turns", continueWords(s)},
		{"idle", idleWords(s)},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "%s\t%s\n", line[0], line[1])
		}
	}
	return out.Flush()
}

func unitWords(u units.Description) string {
	if u.ActiveState == "" {
		return u.Unit + ", not known to systemd"
	}
	words := fmt.Sprintf("%s, %s (%s)", u.Unit, u.ActiveState, u.SubState)
	if u.NeedReload {
		words += "; systemd has not read a change: systemctl daemon-reload"
	}
	return words
}

func userWords(s *remoteconfig.Settings) string {
	if s.User != "" {
		return s.User
	}
	return remotescheck.UserOf(s) + ", a user of its own"
}

func attachWords(s *remoteconfig.Settings) string {
	who := []string{"root"}
	if s.User != "" {
		who = append(who, s.User)
	}
	if s.Group != "" {
		who = append(who, "the group "+s.Group)
	}
	return strings.Join(who, ", ")
}

func handsWords(s *remoteconfig.Settings) string {
	if s.Hands == nil {
		return ""
	}
	if s.Hands.URL != "" {
		return "codex exec-server at " + s.Hands.URL
	}
	return "a session of codex-runner with " + strings.TrimSpace(s.Hands.Repo+" "+s.Hands.Ref) + ", without a network"
}

func writesWords(s *remoteconfig.Settings) string {
	if s.Hands != nil {
		return "its home and /tmp; the commands their session"
	}
	if s.Sandbox == remoteconfig.ReadOnly {
		return "its home and /tmp alone"
	}
	return strings.Join(s.Directories(), ", ") + ", its home and /tmp"
}

func modelWords(s *remoteconfig.Settings) string {
	if s.Provider != nil {
		return s.Model + " of " + s.Provider.BaseURL
	}
	accounts := "all accounts"
	if len(s.Accounts) > 0 {
		accounts = "the accounts " + strings.Join(s.Accounts, ", ")
	}
	return cmp.Or(s.Model, "codex's own choice") + ", by " + accounts
}

func networkWords(n remoteconfig.Network) string {
	switch n {
	case remoteconfig.NoNetwork:
		return "none, only the model"
	case remoteconfig.Loopback:
		return "this machine alone (127.0.0.0/8, ::1)"
	default:
		return "every network"
	}
}

func limitWords(s *remoteconfig.Settings) string {
	var words []string
	for _, limit := range [][2]string{{"memory", s.Memory}, {"cpu", s.CPU}} {
		if limit[1] != "" {
			words = append(words, limit[0]+" "+limit[1])
		}
	}
	if s.Tasks > 0 {
		words = append(words, fmt.Sprintf("%d tasks", s.Tasks))
	}
	return strings.Join(words, ", ")
}

func continueWords(s *remoteconfig.Settings) string {
	switch s.Continue {
	case remoteconfig.Always:
		return fmt.Sprintf("go on, %d times at most", s.ContinueLimit)
	case remoteconfig.Ask:
		return fmt.Sprintf("go on when a person says so, %d times at most", s.ContinueLimit)
	default:
		return "stay interrupted"
	}
}

func idleWords(s *remoteconfig.Settings) string {
	if s.IdleStop == 0 {
		return "runs on"
	}
	return fmt.Sprintf("stops after %s without people and turns; an attach starts it", s.IdleStop)
}
