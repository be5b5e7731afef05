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

// LogIn runs codex's own login on the home, as the worker's user. The API key, if it is to be one, is what codex
// reads from in; else codex shows a URL and a code and waits for up to 15 minutes. signals are passed on to it.
// An exit status of codex other than 0 is an error without more of a reason: codex has said it to the user.
func (p *Program) LogIn(ctx context.Context, apiKey bool, in io.Reader, out, talk io.Writer, signals <-chan os.Signal) error {
	args := []string{"login", "--device-auth"}
	if apiKey {
		args = []string{"login", "--with-api-key"}
	}
	// Before its first start a home has no configuration.
	cmd := exec.CommandContext(ctx, p.path, append(args, "-c", `cli_auth_credentials_store="file"`)...)
	cmd.Env, cmd.Dir = p.environ(), p.dir
	// A session of its own: who shares a terminal with root may type into it (TIOCSTI, ioctl_tty(2)).
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setsid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, talk
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run codex: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("codex has not logged in (%w)", err)
			}
			return nil
		}
	}
}
