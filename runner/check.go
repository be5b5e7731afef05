package runner

import (
	"errors"
	"fmt"
	"time"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/repositories"
	"codex-proxy/runner/runs"
	"codex-proxy/runner/session"
)

// checks has the settings by which requests are checked.
type checks struct {
	network bool // sessions may have it
	limits  Limits
}

// session returns the commands of a request with all their limits.
func (c checks) session(n wire.NewSession) ([]wire.NewCommand, error) {
	switch {
	case n.Repository == "" && (n.Ref != "" || n.Patch != ""):
		return nil, wire.Refuse(wire.InvalidRequest, "name a repository", "a ref and a patch are of a repository")
	case len(n.Ref) > repositories.LongestName || len(n.Repository) > repositories.LongestName:
		return nil, wire.Refuse(wire.InvalidRequest, fmt.Sprintf("use at most %d bytes", repositories.LongestName),
			"the repository or the ref is too long")
	case n.Network && !c.network:
		return nil, wire.Refuse(wire.Forbidden, "leave it out, or have root set network in runner.toml",
			"sessions may not have the network")
	case n.HoldOnFailure < 0 || time.Duration(n.HoldOnFailure) > session.MaxHold:
		return nil, wire.Refuse(wire.InvalidRequest, fmt.Sprintf("use a time up to %v", session.MaxHold),
			"hold_on_failure is out of range")
	case n.IdleTimeout < 0:
		return nil, wire.Refuse(wire.InvalidRequest, "use a time above 0", "idle_timeout is out of range")
	case len(n.Commands) == 0 || len(n.Commands) > maxCommands:
		return nil, wire.Refuse(wire.InvalidRequest, fmt.Sprintf("send 1 to %d", maxCommands),
			"commands has %d of them",
			len(n.Commands))
	}
	if err := environments.Check(n); err != nil {
		return nil, err
	}
	if err := checkSecrets(n.Secrets); err != nil {
		return nil, err
	}
	if err := checkPatch(n.Patch); err != nil {
		return nil, err
	}
	full := make([]wire.NewCommand, len(n.Commands))
	for i, one := range n.Commands {
		var err error
		if full[i], err = c.command(one, n.Limits); err != nil {
			return nil, invalid(i, len(n.Commands), err)
		}
	}
	return full, nil
}

var secretName = lazyregexp.New(`^[A-Za-z0-9_]{1,64}$`)

func checkSecrets(secrets map[string]string) error {
	if len(secrets) > maxSecrets {
		return wire.Refuse(wire.InvalidRequest, fmt.Sprintf("send at most %d", maxSecrets), "secrets has %d of them",
			len(secrets))
	}
	values := map[string][]byte{}
	for name, value := range secrets {
		if !secretName.MatchString(name) {
			return wire.Refuse(wire.InvalidRequest, "use up to 64 letters, digits and _", "secrets has the name %q",
				name)
		}
		if value == "" || len(value) > maxSecretSize {
			return wire.Refuse(wire.InvalidRequest, fmt.Sprintf("use 1 to %d bytes", maxSecretSize),
				"the secret %s has %d bytes",
				name, len(value))
		}
		values[name] = []byte(value)
	}
	if _, err := logs.NewSecrets(values); err != nil { // the session could not hide them
		return wire.RefuseAs(wire.InvalidRequest, err)
	}
	return nil
}

// command returns a command with all its limits. An error is "fault: remedy".
func (c checks) command(n wire.NewCommand, ofSession wire.Limits) (wire.NewCommand, error) {
	var err error
	if n.Limits, err = c.limits.fill(n.Limits, ofSession); err != nil {
		return n, err
	}
	if n.TTY != nil && n.Stdin {
		return n, errors.New("a command has stdin and tty: leave one of the two out, as a terminal is the input, too")
	}
	return n, runs.SpecOf(n, 1).Check()
}
