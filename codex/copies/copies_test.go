package copies

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bed is a store, and a directory in which codexes are installed.
type bed struct {
	*Store
	t   *testing.T
	opt string
}

func newBed(t *testing.T) *bed {
	dir := t.TempDir()
	for _, at := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(at, 0o755)) //nolint:gosec // of the test
	}
	b := &bed{At(filepath.Join(dir, "copies"), filepath.Join(dir, "runs")), t, filepath.Join(dir, "opt")}
	t.Cleanup(func() { assert.Empty(t, b.leftovers(), "nothing is left half-made") })
	return b
}

func (b *bed) leftovers() (names []string) {
	for _, dir := range []string{b.Dir, b.Runs} {
		left, err := filepath.Glob(filepath.Join(dir, newPrefix+"*"))
		require.NoError(b.t, err)
		names = append(names, left...)
	}
	return names
}

// install makes the package of a codex, as npm does, in place of another one.
func (b *bed) install(version, program string) string {
	b.t.Helper()
	require.NoError(b.t, os.RemoveAll(b.opt))
	for file, text := range map[string]string{
		"bin/codex": program, "codex-resources/bwrap": "a sandbox", packageFile: `{"version":"` + version + `"}`,
	} {
		path := filepath.Join(b.opt, file)
		require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(b.t, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // a package
	}
	native := filepath.Join(b.opt, "bin/codex")
	require.NoError(b.t, os.Chmod(native, 0o755)) //nolint:gosec // a program
	return native
}

func (b *bed) take(program string) Copy {
	b.t.Helper()
	c, err := b.Take(b.t.Context(), program)
	require.NoError(b.t, err)
	return c
}

func (b *bed) names() (names []string) {
	list, err := b.List()
	require.NoError(b.t, err)
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}

func TestTake(t *testing.T) {
	b := newBed(t)
	program := b.install("0.171.0", "one")
	for _, file := range []string{"README", "bin/node", "codex-resources/closed"} {
		require.NoError(t, os.WriteFile(filepath.Join(b.opt, file), nil, 0o600))
	}
	c := b.take(program)
	assert.Equal(t, "0.171.0-7692c3ad3540", c.Name)
	assert.Equal(t, filepath.Join(b.Dir, c.Name, "bin/codex"), c.Program)
	for file, mode := range map[string]fs.FileMode{"": 0o755, "bin/codex": 0o755, "codex-resources/bwrap": 0o644, "codex-resources/closed": 0o600, recordFile: 0o644} {
		info, err := os.Stat(filepath.Join(b.Dir, c.Name, file))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), file)
	}
	require.NoError(t, c.Check())
	for _, file := range []string{"README", "bin/node"} {
		_, err := os.Stat(filepath.Join(b.Dir, c.Name, file))
		assert.ErrorIs(t, err, fs.ErrNotExist, "what is not of codex")
	}

	assert.Equal(t, c, b.take(program), "the same one, without reading it")
	again := b.take(b.install("0.171.0", "one"))
	assert.Equal(t, c.Name, again.Name, "an installation that changes nothing")
	assert.NotEqual(t, c.File, again.File)
	next := b.take(b.install("0.172.0", "two"))
	assert.ElementsMatch(t, []string{c.Name, next.Name}, b.names())
	text, err := os.ReadFile(c.Program)
	require.NoError(t, err)
	assert.Equal(t, "one", string(text), "the installation leaves the copy alone")
}

func TestABareProgramIsAskedForItsVersion(t *testing.T) {
	b := newBed(t)
	b.install("0.171.0", "one")
	require.NoError(t, os.Remove(filepath.Join(b.opt, packageFile)))
	program := filepath.Join(b.opt, "bin/codex")
	assert.Equal(t, "unknown-7692c3ad3540", b.take(program).Name)
	require.NoError(t, os.RemoveAll(b.Dir))
	b.Version = func(_ context.Context, asked string) (string, error) {
		assert.Equal(t, program, asked)
		return "0.160.0-alpha.1", nil
	}
	c := b.take(program)
	assert.Equal(t, "0.160.0-alpha.1-7692c3ad3540", c.Name)
	_, err := os.Stat(filepath.Join(b.Dir, c.Name, "codex-resources"))
	assert.ErrorIs(t, err, fs.ErrNotExist, "what else is in its directory is not its own")
}

// A copy that anybody else may have changed, or that a killed machine has cut, is no copy: the next start makes it anew.
func TestADamagedCopyIsTakenAgain(t *testing.T) {
	for what, damage := range map[string]func(c Copy) error{
		"cut":            func(c Copy) error { return os.Truncate(c.Program, 1) },
		"writable":       func(c Copy) error { return os.Chmod(c.Program, 0o777) },               //nolint:gosec // the fault
		"open directory": func(c Copy) error { return os.Chmod(filepath.Dir(c.Program), 0o777) }, //nolint:gosec // the fault
		"no record":      func(c Copy) error { return os.Remove(filepath.Join(filepath.Dir(c.Program), "..", recordFile)) },
		"a link": func(c Copy) error {
			return errors.Join(os.Rename(c.Program, c.Program+"2"), os.Symlink("codex2", c.Program))
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t)
			program := b.install("0.171.0", "one")
			c := b.take(program)
			require.NoError(t, damage(c))
			_, err := b.Get(c.Name)
			require.Error(t, err)
			assert.Empty(t, b.names())
			assert.Equal(t, c.Name, b.take(program).Name)
			require.NoError(t, c.Check())
		})
	}
}

func TestCheckReadsTheProgram(t *testing.T) {
	b := newBed(t)
	c := b.take(b.install("0.171.0", "one"))
	require.NoError(t, os.WriteFile(c.Program, []byte("eno"), 0o755)) //nolint:gosec // a program
	_, err := b.Get(c.Name)
	require.NoError(t, err, "the size is the same")
	assert.ErrorContains(t, c.Check(), "its bytes have changed")
}

// What a killed process has left, and what fails in the middle, is no copy and goes.
func TestAnUnfinishedCopyGoes(t *testing.T) {
	b := newBed(t)
	program := b.install("0.171.0", "one")
	require.NoError(t, os.MkdirAll(filepath.Join(b.Dir, newPrefix+"killed/bin"), 0o755))
	b.take(program)
	assert.Empty(t, b.leftovers())

	program = b.install("0.172.0", "two")
	require.NoError(t, os.Symlink("/etc/shadow", filepath.Join(b.opt, "codex-resources/link")))
	_, err := b.Take(t.Context(), program)
	require.ErrorContains(t, err, "neither a file nor a directory")
	assert.Len(t, b.names(), 1)
}

// The copies are those of root: a program that another user can replace is none.
func TestOnlyRootsProgramsAreCopied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to other users")
	}
	for what, open := range map[string]func(b *bed, program string) error{
		"belongs to the user":      func(_ *bed, program string) error { return os.Chown(program, 65534, 0) },
		"belongs to the user 4711": func(b *bed, _ string) error { return os.Chown(b.opt, 4711, 0) },
		"all users may write to":   func(b *bed, _ string) error { return os.Chmod(b.opt, 0o777) }, //nolint:gosec // the fault
		"belongs to the user 4712": func(b *bed, _ string) error {
			return os.Chown(filepath.Join(b.opt, "codex-resources"), 4712, 0)
		},
		"the group":               func(_ *bed, program string) error { return os.Chown(program, 0, 65534) }, // and g+w
		"only some users may use": func(b *bed, _ string) error { return os.Chmod(b.opt, 0o750) },            //nolint:gosec // the fault
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t)
			b.owner = 0
			program := b.install("0.171.0", "one")
			require.NoError(t, errors.Join(open(b, program)))
			if what == "the group" {
				require.NoError(t, os.Chmod(program, 0o775)) //nolint:gosec // the fault
			}
			_, err := b.Take(t.Context(), program)
			var place *InPlaceError
			require.ErrorAs(t, err, &place)
			assert.ErrorContains(t, err, what)
			assert.Empty(t, b.names())
		})
	}
}

func (b *bed) choose(start Start) (Copy, error) {
	b.t.Helper()
	if start.Unit == "" {
		start.Unit = "codex-worker@default.service"
	}
	c, err := b.Choose(b.t.Context(), start)
	chosen, ok, failed := b.Chosen(start.Unit)
	var missing *MissingError
	if !errors.As(err, &missing) {
		require.NoError(b.t, failed)
		assert.Equal(b.t, c.Name != "", ok)
		assert.Equal(b.t, c.Name, chosen.Name, "the unit reads what was chosen")
	} else {
		assert.Equal(b.t, err.Error(), failed.Error())
	}
	return c, err
}

func (b *bed) chosen(start Start) string {
	b.t.Helper()
	c, err := b.choose(start)
	require.NoError(b.t, err)
	return c.Version
}

func TestChooseFollows(t *testing.T) {
	b := newBed(t)
	program := b.install("0.171.0", "one")
	assert.Equal(t, "0.171.0", b.chosen(Start{Program: program, Policy: Follow}), "there is nothing else")
	b.install("0.172.0", "two")
	assert.Equal(t, "0.171.0", b.chosen(Start{Program: program, Policy: Follow}), "it was not tried")
	assert.Equal(t, "0.171.0", b.chosen(Start{Program: program, Policy: Pinned, AtOnce: true}))
	assert.Equal(t, "0.172.0", b.chosen(Start{Program: program, Policy: Follow, AtOnce: true}))
	state, err := b.State()
	require.NoError(t, err)
	assert.Equal(t, "0.172.0-3fc4ccfe7458", state.InUse)
	assert.Equal(t, "0.171.0-7692c3ad3540", state.Before)

	require.NoError(t, b.Hold(t.Context(), state.InUse, "it answers \x1b\u009bno tool call"))
	assert.Equal(t, "0.171.0", b.chosen(Start{Program: program, Policy: Follow, AtOnce: true}), "the way back")
	held, _ := b.State()
	assert.Equal(t, "it answers no tool call", held.Held[0].Reason)
	assert.Equal(t, "0.171.0", b.chosen(Start{Policy: Follow}), "codex is not installed any more")
}

func TestChooseGoesByTheOperator(t *testing.T) {
	b := newBed(t)
	program := b.install("0.171.0", "one")
	old, err := b.choose(Start{Program: program, Policy: Follow})
	require.NoError(t, err)
	b.install("0.172.0", "two")
	assert.Equal(t, "0.172.0", b.chosen(Start{Program: program, Policy: Follow, AtOnce: true}))
	assert.Equal(t, "0.171.0", b.chosen(Start{Program: program, Policy: "0.171.0"}))
	assert.Equal(t, "0.172.0", b.chosen(Start{Program: program, Policy: "0.172.0"}))
	require.NoError(t, b.Pin(t.Context(), old.Name))
	require.ErrorContains(t, b.Use(t.Context(), "0.172.0-3fc4ccfe7458"), "stays in use by order of an operator", "a trial ends meanwhile")
	assert.Equal(t, "0.171.0", b.chosen(Start{Program: program, Policy: Follow, AtOnce: true}))
	require.NoError(t, b.Follow(t.Context()))
	assert.Equal(t, "0.172.0", b.chosen(Start{Program: program, Policy: Follow, AtOnce: true}))

	_, err = b.choose(Start{Program: program, Policy: "0.180.0"})
	require.EqualError(t, err, "codex 0.180.0 is neither installed nor kept: install it, "+
		"`npm install -g @openai/codex@0.180.0`, or name another version in `codex`")
}

// The program that a unit's own settings name is copied, and has nothing to do with what all units use.
func TestChooseOfAProgramOfItsOwn(t *testing.T) {
	b := newBed(t)
	program := b.install("0.160.0", "own")
	assert.Equal(t, "0.160.0", b.chosen(Start{Program: program, Own: true, Policy: "0.171.0"}))
	assert.True(t, Own(b.Store, "codex-worker@default.service"))
	state, err := b.State()
	require.NoError(t, err)
	assert.Empty(t, state.InUse)
	assert.Equal(t, "0.160.0", b.chosen(Start{Program: program, Policy: Follow}))
	assert.False(t, Own(b.Store, "codex-worker@default.service"))
}

func TestAHeldCodexIsUsedIfNothingElseIsLeft(t *testing.T) {
	b := newBed(t)
	program := b.install("0.171.0", "one")
	c := b.take(program)
	require.NoError(t, b.Hold(t.Context(), c.Name, "bad"))
	assert.Equal(t, "0.171.0", b.chosen(Start{Program: program, Policy: Follow}))
	assert.ErrorContains(t, b.Hold(t.Context(), c.Name, "bad"), "nothing can take the place")
}

// In place: the unit has no record, and the next start that has a copy makes one.
func TestChooseInPlace(t *testing.T) {
	b := newBed(t)
	assert.Empty(t, b.chosen(Start{Policy: Follow}), "codex is not installed")
	program := b.install("0.171.0", "one")
	require.NoError(t, os.Chmod(b.opt, 0o777)) //nolint:gosec // the fault
	c, err := b.choose(Start{Program: program, Policy: Follow})
	var place *InPlaceError
	require.ErrorAs(t, err, &place)
	assert.Empty(t, c.Name)
	_, err = b.choose(Start{Program: program, Policy: "0.171.0"})
	require.ErrorAs(t, err, &place, "it is that version")
	_, err = b.choose(Start{Program: program, Policy: "0.172.0"})
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
}

// Copies in use, the one before, and those that processes run are kept; the others go with the next change.
func TestPrune(t *testing.T) {
	b := newBed(t)
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	text, err := os.ReadFile(sleep)
	require.NoError(t, err)
	program := b.install("0.1.0", string(text))
	first, err := b.choose(Start{Program: program, Policy: Follow, AtOnce: true})
	require.NoError(t, err)
	running := exec.Command(first.Program, "1000")
	require.NoError(t, running.Start())
	t.Cleanup(func() { _ = running.Process.Kill(); _ = running.Wait() })
	for _, version := range []string{"0.2.0", "0.3.0", "0.4.0"} {
		b.install(version, version)
		assert.Equal(t, version, b.chosen(Start{Program: program, Policy: Follow, AtOnce: true}))
	}
	versions := func() (list []string) {
		copies, err := b.List()
		require.NoError(t, err)
		for _, c := range copies {
			list = append(list, c.Version)
		}
		return list
	}
	assert.Equal(t, []string{"0.4.0", "0.3.0", "0.1.0"}, versions())
	require.NoError(t, running.Process.Kill())
	_ = running.Wait()
	_, err = b.Prune(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"0.4.0", "0.3.0"}, versions())
}

// A process that does not see what runs removes nothing: the copies of units with a program of their own are not in use.
func TestAConfinedProcessRemovesNothing(t *testing.T) {
	b := newBed(t)
	own := b.take(b.install("0.1.0", "own"))
	next := b.take(b.install("0.2.0", "next"))
	require.NoError(t, b.Use(t.Context(), next.Name))
	b.Confined = true
	require.NoError(t, b.Assign(t.Context(), "codex-canary@"+next.Name+".service", next.Name))
	assert.Contains(t, b.names(), own.Name)
	b.Confined = false
	require.NoError(t, b.Assign(t.Context(), "codex-worker@default.service", next.Name))
	assert.NotContains(t, b.names(), own.Name)
}

// The copy of a trial stays until its verdict is carried out: whether an earlier trial has held it, and whether the trial
// gives it another name.
func TestTheCopyOfATrialStays(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.Use(t.Context(), b.take(b.install("0.1.0", "old")).Name))
	held := b.take(b.install("0.2.0", "held"))
	require.NoError(t, b.Hold(t.Context(), held.Name, "timeout"))
	require.NoError(t, b.Assign(t.Context(), CanaryUnit(held.Name), held.Name))
	assert.Contains(t, b.names(), held.Name)
	require.NoError(t, b.Assign(t.Context(), CanaryUnit(held.Name), ""))

	program := b.install("0.3.0", "bare")
	require.NoError(t, os.Remove(filepath.Join(b.opt, packageFile)))
	bare := b.take(program)
	require.NoError(t, b.Assign(t.Context(), CanaryUnit(bare.Name), bare.Name))
	named, err := Rename(t.Context(), b.Store, bare.Name, "0.3.0")
	require.NoError(t, err)
	gone, err := b.Prune(t.Context())
	require.NoError(t, err)
	assert.Empty(t, gone)
	assert.NotContains(t, b.names(), held.Name, "its trial is over")
	require.NoError(t, b.Use(t.Context(), named))
}

// A copy that another process has removed meanwhile is neither put into use nor chosen.
func TestACopyThatIsGoneIsNotUsed(t *testing.T) {
	for name, use := range map[string]func(b *bed, name string) error{
		"use":    func(b *bed, name string) error { return b.Use(b.t.Context(), name) },
		"pin":    func(b *bed, name string) error { return b.Pin(b.t.Context(), name) },
		"assign": func(b *bed, name string) error { return b.Assign(b.t.Context(), CanaryUnit(name), name) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			c := b.take(b.install("0.1.0", "one"))
			synctest.Test(t, func(t *testing.T) {
				b := &bed{b.Store, t, b.opt}
				unlock, err := b.lock(t.Context())
				require.NoError(t, err)
				ended := make(chan error, 1)
				go func() { ended <- use(b, c.Name) }()
				synctest.Wait() // it waits for the lock
				require.NoError(t, os.RemoveAll(filepath.Dir(filepath.Dir(c.Program))))
				unlock()
				require.ErrorIs(t, <-ended, fs.ErrNotExist)
			})
			state, err := b.State()
			require.NoError(t, err)
			assert.Empty(t, state.InUse)
			_, ok := b.Of(CanaryUnit(c.Name))
			assert.False(t, ok)
		})
	}
}

// A confined process removes a copy that is held, once no unit has it.
func TestAConfinedProcessRemovesWhatIsHeld(t *testing.T) {
	b := newBed(t)
	b.Confined = true
	require.NoError(t, b.Use(t.Context(), b.take(b.install("0.1.0", "old")).Name))
	held := b.take(b.install("0.2.0", "held"))
	require.NoError(t, b.Hold(t.Context(), held.Name, "timeout"))
	long := time.Now().Add(-time.Hour)
	const unit = "codex-worker@default.service"
	require.NoError(t, b.Assign(t.Context(), unit, held.Name))
	require.NoError(t, unix.Lutimes(filepath.Join(b.Runs, unit), []unix.Timeval{unix.NsecToTimeval(long.UnixNano()),
		unix.NsecToTimeval(long.UnixNano())}))
	gone, err := b.Prune(t.Context())
	require.NoError(t, err)
	assert.Empty(t, gone, "the unit may run it still")
	require.NoError(t, b.Assign(t.Context(), unit, ""))
	gone, err = b.Prune(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{held.Name}, gone)
}

func TestPolicies(t *testing.T) {
	for _, good := range []string{"follow", "pinned", "0.171.0", "0.172.0-alpha.3"} {
		p, err := ParsePolicy(good)
		require.NoError(t, err, good)
		assert.Equal(t, Policy(good), p)
	}
	for _, bad := range []string{"", "latest", "0.171", "v0.171.0", "../0.1.0", "0.1.0-../.."} {
		_, err := ParsePolicy(bad)
		assert.Error(t, err, bad)
	}
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", ".", "..", ".lock", "0.1.0", "0.1.0-/../../etc12", "../0.1.0-7692c3ad3540", StateFile} {
		assert.False(t, ValidName(bad), bad)
	}
}
