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

// The variables of an environment do not replace those of the command.
func TestActivate(t *testing.T) {
	l := &Launch{Spec: &session.Spec{Env: map[string]string{"MINE": "kept"}}, Env: []string{"PATH=/bin", "MINE=kept"}}
	l.activate(environment.Activation{
		Path: []string{"/environments/k/bin"}, Env: map[string]string{"MINE": "x", "OURS": "y"},
	})
	assert.Equal(t, []string{"MINE=kept", "OURS=y", "PATH=/environments/k/bin:/bin"}, l.Env)
}

// A command waits for its environment no longer than it may, and uses none that is not whole.
func TestEnvironmentThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/environment.yml", nil, 0o600))
	tools := t.TempDir()
	require.NoError(t, os.WriteFile(tools+"/micromamba", []byte("#!/bin/sh\necho 1\n"), 0o700))
	e := Environment{Dir: t.TempDir()}
	programs := sandbox.Programs{Usual: tools}
	l := &Launch{
		Spec: &session.Spec{Environment: &session.Environment{Owner: "1000", Name: environment.Conda, Wait: time.Millisecond}}, Dir: dir,
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
			Spec: &session.Spec{Environment: &session.Environment{Owner: "1000", Name: environment.Conda, Wait: patience}},
			Dir:  dir, Provide: provide, Programs: programs,
		}
		assert.ErrorContains(t, e.Prepare(t.Context(), l), want)
	}
	var needs []bool
	l = &Launch{
		Spec: &session.Spec{Environment: &session.Environment{Owner: "1000", Name: environment.Conda, Wait: patience}}, Dir: dir,
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
	l = &Launch{Spec: &session.Spec{Environment: &session.Environment{Owner: "1000", Name: environment.Conda, Wait: patience}}, Dir: t.TempDir()}
	require.ErrorContains(t, e.Prepare(t.Context(), l), "the workspace has no environment.yml")
	l.Spec.Environment.Name = environment.Auto
	assert.NoError(t, e.Prepare(t.Context(), l), "its set-up runs later")
}

// The changes of a workspace that went to another session are gone: a new one has none, which would be a wrong answer.
func TestDiffOfANewWorkspace(t *testing.T) {
	spec := &session.Spec{Args: session.DiffOrder{}.Args(), Workspace: &session.Workspace{}}
	err := Workspace{}.Prepare(t.Context(), &Launch{Spec: spec, Dir: t.TempDir()})
	require.ErrorIs(t, err, errNothingLeft)
}
