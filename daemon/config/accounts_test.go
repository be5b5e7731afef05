package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/accounts"
)

// plain is the file of a worker that has an account.
const plain = "mode = 'plain'"

// writeWorkers is write with the named worker files.
func writeWorkers(t *testing.T, text string, workers map[string]string) string {
	t.Helper()
	path := write(t, text)
	dir := filepath.Join(filepath.Dir(path), "workers")
	require.NoError(t, os.Remove(filepath.Join(dir, "default.toml")))
	for name, doc := range workers {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".toml"), []byte(doc), 0o644))
	}
	return path
}

func TestAccountsByDefault(t *testing.T) {
	c, err := Load(writeWorkers(t, "", map[string]string{"a": plain, "b": plain}), nil)
	require.NoError(t, err)
	assert.Equal(t, accounts.Policy{
		Rotation: accounts.Off, Order: []string{"a", "b"}, RotateAt: 0.05,
		PrewarmAt: map[string]float64{"5h": 0.1, "7d": 0.05}, IdleStop: 10 * time.Minute, ReadyWhenExhausted: true,
	}, c.Accounts)
}

func TestAccounts(t *testing.T) {
	const text = `
[accounts]
rotation = 'ordered'
order = ['c', 'a']
warm = 1
rotate_at = 2.5
prewarm_at = { '30d' = 3, '7d' = 100, '90m' = 4 }
idle_stop = '1s'
ready_when_exhausted = false
`
	workers := map[string]string{"a": plain, "b": plain, "c": "mode = 'demo'"}
	c, err := Load(writeWorkers(t, text, workers), []string{"accounts.rotation=even"})
	require.NoError(t, err)
	assert.Equal(t, accounts.Policy{
		Rotation: accounts.Even, Order: []string{"c", "a", "b"}, Warm: 1, RotateAt: 0.025,
		PrewarmAt: map[string]float64{"7d": 1, "30d": 0.03, "90m": 0.04}, IdleStop: time.Second,
	}, c.Accounts)
	c, err = Load(writeWorkers(t, text, workers), []string{"accounts.warm=all"})
	require.NoError(t, err)
	assert.Zero(t, c.Accounts.Warm)
	workers["b"] = "mod = 'plain'"
	_, err = Load(writeWorkers(t, "[accounts]\nprocesses = 1", workers), nil)
	assert.NoError(t, err, "a fault in the file of one worker stops that one alone")
}

func TestAccountsNameWhatIsWrong(t *testing.T) {
	two := map[string]string{"alice": plain, "bob": plain}
	without := map[string]string{
		"demo":  "mode = 'demo'",
		"local": "mode = 'plain'\nmodel = 'm'\n[provider]\nname = 'p'\nbase_url = 'http://127.0.0.1:1'",
	}
	for name, tc := range map[string]struct {
		text    string
		set     []string
		workers map[string]string
		want    string
	}{
		"rotation": {text: "[accounts]\n\nrotation = 'on'",
			want: `config.toml:3: accounts.rotation = "on": must be one of off, ordered, even`},
		"unknown account": {text: "[accounts]\norder = ['alise']",
			want: `config.toml:2: accounts.order: there is no account "alise"; did you mean "alice"?`},
		"strange account": {text: "[accounts]\norder = ['zzzzzz']",
			want: `config.toml:2: accounts.order: there is no account "zzzzzz": an account has the name of its ` +
				`worker; there are alice, bob`},
		"twice": {text: "[accounts]\norder = [\n'bob',\n'bob']",
			want: `config.toml:2: accounts.order: "bob" stands there twice; remove one of them`},
		"no account": {text: "\n[accounts]\nrotation = 'even'", workers: without,
			want: `config.toml:3: accounts.rotation = "even": no worker has an account: each is a demo worker or ` +
				"has a [provider]; add one with `codex-proxy accounts add NAME`, or set rotation = \"off\""},
		"many warm": {text: "[accounts]\nwarm = 3",
			want: `config.toml:2: accounts.warm = 3: must be between 1 and the number of workers, which is 2, or ` +
				`"all"`},
		"none warm": {text: "[accounts]\nwarm = 0", want: `config.toml:2: accounts.warm = 0: must be between 1 and`},
		"warm word": {text: "[accounts]\nwarm = 'some'",
			want: `config.toml:2: accounts.warm: "some" is not a number, nor "all"`},
		"many processes": {text: "[accounts]\nprocesses = 3",
			want: `config.toml:2: accounts.processes = 3: must be between 1 and the number of workers, which is 2, or "all"`},
		"no processes": {text: "[accounts]\nprocesses = 0", want: `config.toml:2: accounts.processes = 0: must be between 1`},
		"processes on standby": {text: "[accounts]\nwarm = 1\nprocesses = 1",
			workers: map[string]string{"a": plain + "\nnetwork = 'model'", "b": plain + "\nnetwork = 'model'"},
			want: `config.toml:3: accounts.processes = 1: a codex that serves several accounts is never on standby; set ` +
				`warm = "all", or processes = "all"`},
		"below 0": {text: "[accounts]\nrotate_at = -1",
			want: `config.toml:2: accounts.rotate_at = -1: must be between 0 and 100, the percent of a window that ` +
				`is left`},
		"above 100": {text: "[accounts]\nrotate_at = 101", want: `config.toml:2: accounts.rotate_at = 101: must be`},
		"no number": {text: "[accounts]\nrotate_at = nan", want: `config.toml:2: accounts.rotate_at = NaN: must be`},
		"prewarm range": {text: "[accounts]\n[accounts.prewarm_at]\n\"5h\" = 101",
			want: `config.toml:3: accounts.prewarm_at: "5h" = 101: must be between 0 and 100, the percent that is ` +
				`left`},
		"crossed": {text: "[accounts]\nrotate_at = 8\nprewarm_at = { '7d' = 7, '5h' = 9 }",
			want: `config.toml:3: accounts.prewarm_at: "7d" = 7 is below rotate_at = 8, so the next worker would ` +
				`start after the rotation; set it to 8 or more, or rotate_at to 7 or less`},
		"crossed with a default": {text: "[accounts]\nrotate_at = 8",
			want: `config.toml:2: accounts.prewarm_at: "7d" = 5 is below rotate_at = 8`},
		"crossed by an option": {set: []string{"accounts.rotate_at=8"},
			want: `--set accounts.rotate_at: accounts.prewarm_at: "7d" = 5 is below rotate_at = 8`},
		"window": {text: "[accounts]\nprewarm_at = { 'week' = 9 }", want: `config.toml:2: accounts.prewarm_at: ` +
			`"week" is not the length of a window such as "5h", "7d" or "90m"`},
		"zero window": {text: "[accounts]\nprewarm_at = { '0h' = 9 }", want: `"0h" is not the length of a window`},
		"minutes": {text: "[accounts]\nprewarm_at = { '300m' = 9 }",
			want: `config.toml:2: accounts.prewarm_at: the window "300m" has the name "5h"; write that`},
		"hours": {text: "[accounts]\nprewarm_at = { '168h' = 9 }", want: `the window "168h" has the name "7d"`},
		"a day": {text: "[accounts]\nprewarm_at = { '1440m' = 9 }", want: `the window "1440m" has the name "1d"`},
		"stop at once": {text: "[accounts]\nidle_stop = '1ms'",
			want: `config.toml:2: accounts.idle_stop = "1ms": must be between 1s and 24h0m0s`},
		"never stop": {text: "[accounts]\nidle_stop = '25h'",
			want: `config.toml:2: accounts.idle_stop = "25h0m0s": must`},
		"key": {text: "[accounts]\nrotatoin = 'off'",
			want: `config.toml:2: unknown key "accounts.rotatoin" (did you mean "accounts.rotation"?)`},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.workers == nil {
				tc.workers = two
			}
			_, err := Load(writeWorkers(t, tc.text, tc.workers), tc.set)
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
}

// Whether a worker has an account is known of a file that can be read.
func TestAccountsOfFaultyWorkerFiles(t *testing.T) {
	c, err := Load(writeWorkers(t, "", map[string]string{"demo": "mode = 'demo'", "x": "mode ="}),
		[]string{"accounts.rotation=even"})
	require.NoError(t, err)
	assert.Equal(t, accounts.Even, c.Accounts.Rotation)
}
