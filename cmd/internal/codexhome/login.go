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

// Login is the kind of a home's login.
type Login string

// The logins that codex distinguishes.
const (
	NoLogin    Login = ""
	ChatGPT    Login = "chatgpt"
	APIKey     Login = "api_key"
	OtherLogin Login = "other" // such as an access token
)

// login asks codex for the home's login, without asking the server whether it is valid. It returns no output of
// codex, which has part of the API key.
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

// Login is the kind of the home's login. It does not ask the server whether the login is valid.
func (p *Program) Login(ctx context.Context) (Login, error) { return p.login(ctx) }

// LogIn runs codex's own login, as the worker's user, on a home of its own in dir: on a home with a login codex
// would revoke that login first, even if the new one then fails. It has the settings of the worker's home. With
// apiKey codex reads the key from in; else codex shows a URL and a code and waits for up to 15 minutes. LogIn passes
// signals on to it. An exit status of codex other than 0 is an error without a reason: codex has printed that.
func (p *Program) LogIn(ctx context.Context, dir string, apiKey bool, in io.Reader, out, talk io.Writer,
	signals <-chan os.Signal) error {
	if err := os.Symlink(filepath.Join(p.home, "config.toml"), filepath.Join(dir, "config.toml")); err != nil {
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

// fileStore keeps a login in auth.json even if a home has no configuration yet.
var fileStore = []string{"-c", `cli_auth_credentials_store="file"`}

// on is the same program on another home.
func (c codex) on(dir string) codex {
	c.home = dir
	return c
}

// TakeOver moves LogIn's login from dir into the worker's home, in one step, and the previous login, if any, into
// dir. The worker must own dir, and only root the directories above dir and the home.
func (p *Program) TakeOver(dir string) error {
	fresh, current := filepath.Join(dir, authName), filepath.Join(p.home, authName)
	before := filepath.Join(dir, "before.json")
	if err := os.Link(current, before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot keep the previous login: %w", err)
	}
	if err := os.Rename(fresh, current); err != nil {
		return fmt.Errorf("cannot put the login into the worker's home: %w", err)
	}
	if err := os.Rename(before, fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot keep the previous login: %w", err)
	}
	return nil
}

// LogOut makes codex end the login in dir, if there is one: codex revokes it at OpenAI.
func (p *Program) LogOut(ctx context.Context, dir string) error {
	_, talk, err := p.on(dir).run(ctx, append([]string{"logout"}, fileStore...)...)
	if err != nil && !wasStopped(err) {
		return fmt.Errorf("codex cannot end a login: %s", lastLine(talk))
	}
	return err
}
