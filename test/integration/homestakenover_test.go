package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The homes of the last release, which belong to one user, are taken over by an upgrade
// and given back by a downgrade, with their logins, threads and files.
func TestHomesTakenOver(t *testing.T) {
	t.Parallel() // the test mostly waits
	for _, tc := range []struct {
		name, suite, pattern string
		packager             packager
	}{
		{"deb on systemd 257", newest, "*.deb", aptGet()}, {"deb on systemd 252", oldest, "*.deb", aptGet()},
		{"rpm on systemd 257", newest, "*.rpm", rpmCommand()}, {"rpm on systemd 252", oldest, "*.rpm", rpmCommand()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found, err := filepath.Glob(filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), tc.pattern))
			require.NoError(t, err)
			require.Len(t, found, 1, "CODEX_PROXY_TEST_RELEASED has no package of the release; `make test` makes it")
			testHomesTakenOver(emptyBed(t, tc.suite), tc.packager, found[0])
		})
	}
}

func testHomesTakenOver(b *bed, p packager, released string) {
	t := b.t
	p.install(b, released)
	openai := b.openAI()
	require.NoError(t, b.WriteFile(keyFile, nil, 0o600))
	native := strings.Replace(plainWorker, "plain", "native", 1) + "workspace = \"/srv/project\"\n"
	require.NoError(t, b.WriteFile(workerFile, []byte(native), 0o644))
	b.MustRun(t, "sh", "-ec", "mkdir -p /srv/project/dir; chmod 700 /srv/project; echo mine >/srv/project/dir/file; "+
		"chmod 600 /srv/project/dir/file; chown -R codex-worker: /srv/project")
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex")
	b.MustRun(t, "codex-proxy", "accounts", "add", longName)
	keys := map[string]string{"default": "sk-first-SECRET", longName: "sk-long-SECRET"}
	for name, key := range keys {
		b.logIn(name, key)
	}
	b.start()
	for name := range keys {
		b.MustRun(t, "sh", "-ec", "cd /var/lib/codex-worker/"+name+`; mkdir -p sessions/2026
			echo thread >sessions/2026/rollout.jsonl; chown -R codex-worker: sessions; echo mine >of-root; chmod 600 of-root`)
	}
	served := func(when string) {
		t.Helper()
		b.until("two ready", func(_ int, r report) bool {
			return len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready
		})
		for name, key := range keys {
			var others []string
			for other := range keys {
				if other != name {
					others = append(others, other)
				}
			}
			b.MustRun(t, append([]string{"codex-proxy", "drain"}, others...)...)
			b.askOpenAI()
			seen := openai.Keys()
			assert.Equal(t, key, seen[len(seen)-1], "%s, %s", name, when)
			b.MustRun(t, append([]string{"codex-proxy", "undrain"}, others...)...)
			assert.Equal(t, "thread\n", b.MustRun(t, "cat", "/var/lib/codex-worker/"+name+"/sessions/2026/rollout.jsonl"))
		}
	}
	restart := func() { b.MustRun(t, "systemctl", "restart", workerUnit, "codex-worker@"+longName) }

	for _, running := range []bool{true, false} {
		if !running {
			b.MustRun(t, "systemctl", "stop", "codex.target")
			b.awaitInactive(workerUnit)
		}
		p.install(b, p.now)
		if running {
			served("before their restart")
			b.assertHomes(false, keys)
			restart()
		} else {
			for name := range keys {
				assert.Contains(t, b.row(name), "login API key unit inactive (dead)", "a home that is not taken over yet")
			}
			b.MustRun(t, "systemctl", "start", "codex.target")
		}
		served("after the upgrade")
		b.assertHomes(true, keys)

		if !running {
			b.MustRun(t, "systemctl", "stop", "codex.target")
			b.awaitInactive(workerUnit)
		}
		p.install(b, released)
		if running {
			restart()
		} else {
			b.MustRun(t, "systemctl", "start", "codex.target")
		}
		served("after the downgrade")
		b.assertHomes(false, keys)
	}
	p.install(b, p.now)
	restart()
	served("after the last upgrade")
	p.purge(b)
	assert.Empty(t, b.find("/var/lib", "-name", "*codex-worker*", "-not", "-path", "*/deb-systemd-helper*"))
}

// assertHomes asserts that all files of the homes belong to users of their own, or to
// the one of the release.
func (b *bed) assertHomes(apart bool, workers map[string]string) {
	b.t.Helper()
	for name := range workers {
		home := "/var/lib/codex-worker/" + name
		where := strings.Fields(b.MustRun(b.t, "stat", "--format=%F", home))[0]
		if !apart {
			assert.Equal(b.t, "directory", where, home)
			assert.Empty(b.t, b.find(home, "!", "-user", "codex-worker", "!", "-name", "of-root"))
			continue
		}
		assert.Equal(b.t, "symbolic", where, home)
		user := b.uid("codex-worker@" + name + ".service")
		assert.Equal(b.t, "700 "+user+":"+user, b.owner(home))
		assert.Empty(b.t, b.find(home+"/", "!", "(", "-uid", user, "-gid", user, ")"))
		for _, file := range []string{"/auth.json", "/of-root", "/sessions/2026/rollout.jsonl"} {
			_, _, err := b.Run(b.t.Context(), "runuser", "-u", "codex-worker", "--", "cat", home+file)
			assert.Error(b.t, err, file)
		}
		assert.Equal(b.t, "mine\n", b.MustRun(b.t, "cat", home+"/of-root"))
	}
	if apart {
		assert.Empty(b.t, b.find("/", "-xdev", "-user", "codex-worker", "-not", "-path", "/srv/project*"))
		worker := append(b.inWorker("default").places()["in its unit"], "sh", "-ec", "cat /srv/project/dir/file")
		assert.Equal(b.t, "mine\n", b.MustRun(b.t, worker...), "the workspace of the user of all workers")
	}
}
