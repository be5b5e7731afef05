package codexhome

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// loggedIn reports whether the home has a login, without asking the server whether it is valid. It returns no output
// of codex, which has part of the API key.
func (c codex) loggedIn(ctx context.Context) (bool, error) {
	_, talk, err := c.run(ctx, "login", "status")
	switch {
	case wasStopped(err):
		return false, err
	case err != nil && strings.Contains(talk, "Not logged in"):
		return false, nil
	case err != nil:
		return false, &Problem{Text: "codex cannot read its login: " + lastLine(talk)}
	}
	return true, nil
}

// LogIn runs codex's own login on a home of its own in dir: on a home with a login codex would revoke that login
// first, even if the new one then fails, and beside a running codex the two would overwrite each other's. The home
// in dir has the settings of the worker, and belongs to the user that runs codex. With apiKey codex reads the key
// from in; else codex shows a URL and a code and waits for up to 15 minutes. LogIn passes signals on to it. An exit
// status of codex other than 0 is an error without a reason: codex has printed that.
func (p *Program) LogIn(ctx context.Context, dir string, apiKey bool, in io.Reader, out, talk io.Writer,
	signals <-chan os.Signal) error {
	if err := p.configure(dir); err != nil {
		return fmt.Errorf("cannot prepare the login: %w", err)
	}
	args := []string{"login", "--device-auth"}
	if apiKey {
		args = []string{"login", "--with-api-key"}
	}
	cmd := exec.CommandContext(ctx, p.path, append(args, fileStore...)...)
	cmd.Env, cmd.Dir = p.on(dir).environ(), p.dir
	// A session of its own: a process that shares a terminal with root may type into it (TIOCSTI, ioctl_tty(2)).
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setsid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, talk
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run codex: %w", err)
	}
	if err := waitForwarding(cmd, signals); err != nil {
		return fmt.Errorf("codex has not logged in (%w)", err)
	}
	return nil
}

// waitForwarding waits for cmd, and passes signals on to it.
func waitForwarding(cmd *exec.Cmd, signals <-chan os.Signal) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			return err
		}
	}
}

// fileStore keeps a login in auth.json even if a home has no configuration yet.
var fileStore = []string{"-c", `cli_auth_credentials_store="file"`}

// on is the same program on another home.
func (c codex) on(dir string) codex {
	c.home = dir
	return c
}

// configure writes the settings that a login may go by into dir: the operator's, and not those that keep codex from
// adding to a request, of which codex 0.140 refuses one that it has for another purpose.
func (p *Program) configure(dir string) error {
	doc, err := render(p.worker.File, p.worker.config(always(), nil))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return writeOwned(root, "config.toml", doc, Account{UID: p.as.Uid, GID: p.as.Gid})
}

// LogOut makes codex end the login in dir, if there is one: codex revokes it at OpenAI.
func (p *Program) LogOut(ctx context.Context, dir string) error {
	_, talk, err := p.on(dir).run(ctx, append([]string{"logout"}, fileStore...)...)
	if err != nil && !wasStopped(err) {
		return fmt.Errorf("codex cannot end a login: %s", lastLine(talk))
	}
	return err
}
