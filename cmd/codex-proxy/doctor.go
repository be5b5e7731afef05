package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/cmd/internal/doctor"
	"codex-proxy/cmd/internal/handshake"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/probes"
	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/control"
	"codex-proxy/units"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "look for what is wrong, and for its remedy",
		Long: `
Looks at the installation and names what is wrong with it, and what to do: the
version of systemd, units, users, permissions, the bus and polkit, codex, its
sandbox and logins, the configuration, databases, sockets, models, watchdogs,
ports, the clock. It changes nothing and starts no service. Run it as root.

It exits with 1 if anything failed. What only could be better ("warn") is no
failure.`,
	}
	asJSON := c.Flags().Bool("json", false, `for scripts: {"ok":…,"findings":[{"check","level","subject","detail","remedy"}]},
level being ok, warn or fail`)
	c.RunE = func(c *cobra.Command, _ []string) error { return examine(c.Context(), c.OutOrStdout(), *asJSON) }
	return c
}

// examine prints the report, and fails if anything is wrong.
func examine(ctx context.Context, stdout io.Writer, asJSON bool) error {
	// The configuration is read as the service reads it, not as one of whatever
	// unit runs this command (systemd.exec(5)).
	for _, name := range []string{"CREDENTIALS_DIRECTORY", "RUNTIME_DIRECTORY"} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	report := doctor.Examine(ctx, thisHost())
	show := report.Write
	if asJSON {
		show = func(w io.Writer) error { return json.NewEncoder(w).Encode(report) }
	}
	if err := show(stdout); err != nil || report.OK {
		return err
	}
	return cli.Exit(cli.Failure, nil)
}

func thisHost() doctor.Host {
	return doctor.Host{
		Root: "/", Control: paths.ControlSocket, IsRoot: os.Geteuid() == 0,
		Systemd: units.NewManager(), Account: account, Status: askStatus, Keys: askKeys, Get: get,
		Codex: codexOf, Command: runInWorker, Clock: clock, Free: free,
	}
}

func account(name string) (doctor.Account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return doctor.Account{}, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return doctor.Account{}, err
	}
	var groups []uint32
	for _, id := range append([]string{u.Uid, u.Gid}, ids...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return doctor.Account{}, fmt.Errorf("the user %s has the id %q", name, id)
		}
		groups = append(groups, uint32(n))
	}
	return doctor.Account{UID: groups[0], GID: groups[1], Groups: groups[1:]}, nil
}

func askKeys(ctx context.Context, socket string) (control.Keys, error) {
	return control.NewClient(socket).Keys(ctx)
}

func askStatus(ctx context.Context, socket string) (probes.Report, error) {
	report, _, err := control.NewClient(socket).Status(ctx)
	return report, err
}

// get asks the endpoint itself, past any HTTP proxy of the environment.
func get(ctx context.Context, url string) (status int, body []byte, err error) {
	const limit, longest = 4 << 20, 5 * time.Second
	client := http.Client{Timeout: longest, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, limit))
	return res.StatusCode, body, err
}

func codexOf(w *codexhome.Worker, home string, env []string, as doctor.Account) (doctor.Codex, error) {
	return w.Program(home, env, codexhome.Account{UID: as.UID, GID: as.GID})
}

// runInWorker is bounded by 5 s, of which the command has 4.
func runInWorker(ctx context.Context, socket string, command []string) (r appserver.CommandResult, err error) {
	const longest, ofCommand = 5 * time.Second, 4 * time.Second
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	_, err = handshake.With(ctx, socket, versionString(), func(conn *appserver.Conn) error {
		r, err = conn.RunCommand(ctx, command, ofCommand)
		return err
	})
	return r, err
}

func free(dir string) (uint64, error) {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	return fs.Bavail * uint64(fs.Bsize), err
}

// clock asks the kernel, which knows whether anything keeps the time.
func clock() (doctor.Clock, error) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return doctor.Clock{Now: time.Now(), Synced: state != unix.TIME_ERROR}, err
}
