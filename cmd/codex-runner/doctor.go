package main

import (
	"encoding/json"
	"os"
	"os/user"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/client"
	"codex-proxy/runner/config"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/runnerdoctor"
	"codex-proxy/runner/sandbox"
	"codex-proxy/units"
	"codex-proxy/units/survey"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "check the installation, and print each fault with its remedy",
		Long: `
Looks at the installation and names what is wrong with it, and what to do: systemd and
its units, runner.toml and its toolchains, the socket and your access to it, the
service, polkit, the controllers of cgroups, limits of the kernel, git and the tools of
environments, directories, the store, the disk. It changes nothing. Without root it
leaves out what only root may see.

It exits with 1 if anything failed. What only could be better ("warn") is no failure.`,
	}
	asJSON := c.Flags().Bool("json", false, `for scripts:
  {"ok":…,"findings":[{"check","level","subject",
                       "detail","remedy"}]}
level is ok, warn or fail`)
	connect := socketFlag(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		daemon := connect()
		defer daemon.Close()
		report := runnerdoctor.Examine(c.Context(), thisHost(daemon))
		var err error
		if *asJSON {
			err = json.NewEncoder(c.OutOrStdout()).Encode(report)
		} else {
			err = report.Write(c.OutOrStdout())
		}
		if err != nil || report.OK {
			return err
		}
		return cli.Exit(cli.Failure, nil)
	}
	return c
}

// thisHost is the machine on which the program runs.
func thisHost(daemon *client.Client) runnerdoctor.Host {
	settings, _ := sandbox.Read(config.Path) // another check has the error
	tools := environment.Host{Path: settings.OnHost(sandbox.UnitPath)}
	caller := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		caller = u.Username
	}
	return runnerdoctor.Host{
		Machine: survey.Machine{Root: "/", IsRoot: os.Geteuid() == 0, Systemd: units.NewManager()},
		Version: versionString(), Config: config.Path, User: caller, Status: daemon.Status, UID: userID, Group: inGroup,
		Git: func() error { return tools.Has("git") }, Missing: tools.Missing, Disk: diskOf,
	}
}

func userID(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(id), err
}

// inGroup reports whether the caller is in a group by the database, and by the credentials of this process.
func inGroup(name string) (listed, effective bool, err error) {
	group, err := user.LookupGroup(name)
	if err != nil {
		return false, false, err
	}
	u, err := user.Current()
	if err != nil {
		return false, false, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return false, false, err
	}
	id, err := strconv.Atoi(group.Gid)
	if err != nil {
		return false, false, err
	}
	own, err := os.Getgroups()
	return slices.Contains(ids, group.Gid), slices.Contains(append(own, os.Getegid()), id), err
}

// diskOf is statfs(2).
func diskOf(dir string) (size, free uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return s.Blocks * uint64(s.Bsize), s.Bavail * uint64(s.Bsize), nil
}
