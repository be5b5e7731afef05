package codexhome

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Login is what a home is logged in with.
type Login string

// The logins that codex tells apart.
const (
	NoLogin    Login = ""
	ChatGPT    Login = "chatgpt"
	APIKey     Login = "api_key"
	OtherLogin Login = "other" // such as an access token
)

// login asks codex for the home's login, not the server whether it is any good. What codex says about it goes
// no further: part of an API key is in it.
func (c codex) login(ctx context.Context) (Login, error) {
	_, talk, err := c.run(ctx, "login", "status")
	switch {
	case wasStopped(err):
		return NoLogin, err
	case err != nil && strings.Contains(talk, "Not logged in"):
		return NoLogin, nil
	case err != nil:
		return NoLogin, &Problem{Text: "codex cannot read its login: " + lastLine(talk)}
	case strings.Contains(talk, "using ChatGPT"):
		return ChatGPT, nil
	case strings.Contains(talk, "API key"):
		return APIKey, nil
	}
	return OtherLogin, nil
}

func (c codex) loggedIn(ctx context.Context) (bool, error) {
	in, err := c.login(ctx)
	return in != NoLogin, err
}

// Login is what the home is logged in with; the server is not asked whether it is any good.
func (p *Program) Login(ctx context.Context) (Login, error) { return p.login(ctx) }

// LogIn runs codex's own login, as the worker's user, on a home of its own in dir: on one that is logged in codex
// would revoke that login before it asks for the next, even if there is then none. It has the settings of the
// worker's home. The API key, if it is to be one, is what codex reads from in; else codex shows a URL and a code and
// waits for up to 15 minutes. signals are passed on to it. An exit status of codex other than 0 is an error without
// more of a reason: codex has said it to the user.
func (p *Program) LogIn(ctx context.Context, dir string, apiKey bool, in io.Reader, out, talk io.Writer, signals <-chan os.Signal) error {
	if err := os.Symlink(filepath.Join(p.home, "config.toml"), filepath.Join(dir, "config.toml")); err != nil {
		return fmt.Errorf("cannot prepare the login: %w", err)
	}
	args := []string{"login", "--device-auth"}
	if apiKey {
		args = []string{"login", "--with-api-key"}
	}
	cmd := exec.CommandContext(ctx, p.path, append(args, fileStore...)...)
	cmd.Env, cmd.Dir = p.on(dir).environ(), p.dir
	// A session of its own: who shares a terminal with root may type into it (TIOCSTI, ioctl_tty(2)).
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setsid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, talk
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run codex: %w", err)
	}
	if err := attend(cmd, signals); err != nil {
		return fmt.Errorf("codex has not logged in (%w)", err)
	}
	return nil
}

// attend waits for cmd, and passes signals on to it.
func attend(cmd *exec.Cmd, signals <-chan os.Signal) error {
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

// fileStore keeps a login in auth.json also where a home has no configuration yet.
var fileStore = []string{"-c", `cli_auth_credentials_store="file"`}

// on is the same program on another home.
func (c codex) on(dir string) codex {
	c.home = dir
	return c
}

// TakeOver puts the login that LogIn has left in dir into the worker's home, in one step. The one that was there
// before, if any, is in dir then. The worker must own dir, and none but root the directories that dir and the home
// are in.
func (p *Program) TakeOver(dir string) error {
	fresh, current, before := filepath.Join(dir, authName), filepath.Join(p.home, authName), filepath.Join(dir, "before.json")
	if err := os.Link(current, before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot keep the login of before: %w", err)
	}
	if err := os.Rename(fresh, current); err != nil {
		return fmt.Errorf("cannot put the login into the worker's home: %w", err)
	}
	if err := os.Rename(before, fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot keep the login of before: %w", err)
	}
	return nil
}

// LogOut has codex end the login in dir, if there is one: it revokes it at OpenAI.
func (p *Program) LogOut(ctx context.Context, dir string) error {
	_, talk, err := p.on(dir).run(ctx, append([]string{"logout"}, fileStore...)...)
	if err != nil && !wasStopped(err) {
		return fmt.Errorf("codex cannot end a login: %s", lastLine(talk))
	}
	return err
}
