package exec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
)

// A link that an environment needs is made in the workspace, where git ignores it, and replaces none of the user's.
func TestActivate(t *testing.T) {
	e := Environment{Dir: "/environments"}
	l := &Launch{
		Spec: &session.Spec{Env: map[string]string{"MINE": "kept"}}, Dir: t.TempDir(), Env: []string{"PATH=/bin", "MINE=kept"},
	}
	require.NoError(t, os.MkdirAll(l.Dir+"/.git/info", 0o700))
	exclude := filepath.Join(l.Dir, ".git/info/exclude")
	activate := func(target string) error {
		return e.activate(l, environment.Activation{
			Path: []string{"/environments/k/bin"}, Env: map[string]string{"MINE": "x", "OURS": "y"},
			Links: map[string]string{"node_modules": target},
		})
	}
	require.NoError(t, activate("/environments/k/modules"))
	assert.Equal(t, []string{"MINE=kept", "OURS=y", "PATH=/environments/k/bin:/bin"}, l.Env)
	text, err := os.ReadFile(exclude)
	require.NoError(t, err)
	assert.Equal(t, "/node_modules\n", string(text))

	require.NoError(t, activate("/environments/other/modules"), "the link of an earlier command")
	target, err := os.Readlink(l.Dir + "/node_modules")
	require.NoError(t, err)
	assert.Equal(t, "/environments/other/modules", target)
	require.NoError(t, activate("/environments/other/modules"))

	require.NoError(t, os.Remove(l.Dir+"/node_modules"))
	require.NoError(t, os.Symlink("/etc", l.Dir+"/node_modules"))
	require.ErrorContains(t, activate("/environments/k/modules"), "the workspace has a link node_modules to /etc")
	require.NoError(t, os.Remove(l.Dir+"/node_modules"))
	require.NoError(t, os.Mkdir(l.Dir+"/node_modules", 0o700))
	require.ErrorContains(t, activate("/environments/k/modules"), "where the environment belongs: remove it")
}

// A command waits for its environment no longer than it may, and uses none that is not whole.
func TestEnvironmentThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/requirements.txt", nil, 0o600))
	tools := t.TempDir()
	script := `#!/bin/sh
echo '{"path":"/usr/bin/python3","version":"3","pip":"1","abi":"a","modules":[]}'`
	require.NoError(t, os.WriteFile(tools+"/python3", []byte(script), 0o700))
	e := Environment{Dir: t.TempDir()}
	programs := sandbox.Programs{Usual: tools}
	l := &Launch{
		Spec: &session.Spec{Environment: &session.Environment{Owner: "1000", Name: "auto", Wait: time.Millisecond}}, Dir: dir,
		Programs: programs,
		Provide: func(ctx context.Context, _ *Need) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
	}
	require.ErrorIs(t, e.Prepare(t.Context(), l), errNotProvided)
	for want, provide := range map[string]func(context.Context, *Need) error{
		"was removed while it was provided": func(context.Context, *Need) error { return nil },
		"no disk":                           func(context.Context, *Need) error { return errors.New("no disk") },
	} {
		l := &Launch{
			Spec: &session.Spec{Environment: &session.Environment{Owner: "1000", Name: "auto", Wait: patience}},
			Dir:  dir, Provide: provide, Programs: programs,
		}
		assert.ErrorContains(t, e.Prepare(t.Context(), l), want)
	}
	var needs []bool
	l = &Launch{
		Spec: &session.Spec{Environment: &session.Environment{Owner: "1000", Name: "auto", Wait: patience}}, Dir: dir,
		Programs: programs,
		Provide: func(_ context.Context, n *Need) error {
			needs = append(needs, n.Missing)
			if !n.Missing {
				return nil
			}
			made := filepath.Join(e.Dir, n.Key)
			return errors.Join(os.Mkdir(made, 0o700), os.WriteFile(made+"/.ready", []byte(n.Key+"\n"), 0o600))
		},
	}
	require.NoError(t, e.Prepare(t.Context(), l))
	assert.Equal(t, []bool{false, true}, needs, "somebody had removed it")
	l = &Launch{Spec: &session.Spec{Environment: &session.Environment{Owner: "1000", Name: "auto", Wait: patience}}, Dir: t.TempDir()}
	require.NoError(t, e.Prepare(t.Context(), l), "nothing to install")
	l.Spec.Environment.Name = "vnev"
	assert.ErrorContains(t, e.Prepare(t.Context(), l), "do you mean venv?")
}

// The changes of a workspace that went to another session are gone: a new one has none, which would be a wrong answer.
func TestDiffOfANewWorkspace(t *testing.T) {
	spec := &session.Spec{Args: session.DiffOrder{}.Args(), Workspace: &session.Workspace{}}
	err := Workspace{}.Prepare(t.Context(), &Launch{Spec: spec, Dir: t.TempDir()})
	require.ErrorIs(t, err, errNothingLeft)
}
