package workers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// The homes of the last release, which belong to one user, are taken over by an upgrade
// and given back by a downgrade, with their logins, threads and files. By day each kind of package and each systemd is
// there once.
func TestHomesTakenOver(t *testing.T) {
	t.Parallel() // the test mostly waits
	for _, tc := range []struct {
		name, suite, pattern string
		packager             bed.Packager
	}{
		{"deb on systemd 257", bed.Newest, "*.deb", bed.AptGet()}, {"rpm on systemd 252", bed.Oldest, "*.rpm", bed.RpmCommand()},
		{"deb on systemd 252", bed.Oldest, "*.deb", bed.AptGet()}, {"rpm on systemd 257", bed.Newest, "*.rpm", bed.RpmCommand()},
	}[:nightly.Or(4, 2)] {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found, err := filepath.Glob(filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), tc.pattern))
			require.NoError(t, err)
			require.Len(t, found, 1, "CODEX_PROXY_TEST_RELEASED has no package of the release; `make test` makes it")
			testHomesTakenOver(bed.Empty(t, tc.suite), tc.packager, found[0])
		})
	}
}

func testHomesTakenOver(b *bed.Bed, p bed.Packager, released string) {
	t := b.T
	p.Install(b, released)
	openai := bed.StartOpenAI(b)
	require.NoError(t, b.WriteFile(bed.KeyFile, nil, 0o600))
	native := strings.Replace(bed.PlainWorker, "plain", "native", 1) + "workspace = \"/srv/project\"\n"
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(native), 0o644))
	b.MustRun(t, "sh", "-ec", "mkdir -p /srv/project/dir; chmod 700 /srv/project; echo mine >/srv/project/dir/file; "+
		"chmod 600 /srv/project/dir/file; chown -R codex-worker: /srv/project")
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex")
	b.MustRun(t, "codex-proxy", "accounts", "add", longName)
	keys := map[string]string{"default": "sk-first-SECRET", longName: "sk-long-SECRET"}
	for name, key := range keys {
		bed.LogIn(b, name, key)
	}
	b.Start()
	for name := range keys {
		b.MustRun(t, "sh", "-ec", "cd /var/lib/codex-worker/"+name+`; mkdir -p sessions/2026
			echo thread >sessions/2026/rollout.jsonl; chown -R codex-worker: sessions; echo mine >of-root; chmod 600 of-root`)
	}
	served := func(when string) {
		t.Helper()
		b.Until("two ready", func(_ int, r bed.Report) bool {
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
			bed.AskOpenAI(b)
			seen := openai.Keys()
			assert.Equal(t, key, seen[len(seen)-1], "%s, %s", name, when)
			b.MustRun(t, append([]string{"codex-proxy", "undrain"}, others...)...)
			assert.Equal(t, "thread\n", b.MustRun(t, "cat", "/var/lib/codex-worker/"+name+"/sessions/2026/rollout.jsonl"))
		}
	}
	restart := func() { b.MustRun(t, "systemctl", "restart", bed.WorkerUnit, "codex-worker@"+longName) }

	for _, running := range []bool{true, false} {
		if !running {
			b.MustRun(t, "systemctl", "stop", "codex.target")
			b.AwaitInactive(bed.WorkerUnit)
		}
		p.Install(b, p.Now)
		if running {
			served("before their restart")
			assertHomes(b, false, keys)
			restart()
		} else {
			for name := range keys {
				assert.Contains(t, bed.AccountRow(b, name), "login API key unit inactive (dead)", "a home that is not taken over yet")
			}
			b.MustRun(t, "systemctl", "start", "codex.target")
		}
		served("after the upgrade")
		assertHomes(b, true, keys)

		if !running {
			b.MustRun(t, "systemctl", "stop", "codex.target")
			b.AwaitInactive(bed.WorkerUnit)
		}
		p.Install(b, released)
		if running {
			restart()
		} else {
			b.MustRun(t, "systemctl", "start", "codex.target")
		}
		served("after the downgrade")
		assertHomes(b, false, keys)
	}
	p.Install(b, p.Now)
	restart()
	served("after the last upgrade")
	p.Purge(b)
	assert.Empty(t, bed.Find(b, "/var/lib", "-name", "*codex-worker*", "-not", "-path", "*/deb-systemd-helper*"))
}

// assertHomes asserts that all files of the homes belong to users of their own, or to
// the one of the release.
func assertHomes(b *bed.Bed, apart bool, workers map[string]string) {
	b.T.Helper()
	for name := range workers {
		home := "/var/lib/codex-worker/" + name
		where := strings.Fields(b.MustRun(b.T, "stat", "--format=%F", home))[0]
		if !apart {
			assert.Equal(b.T, "directory", where, home)
			assert.Empty(b.T, bed.Find(b, home, "!", "-user", "codex-worker", "!", "-name", "of-root"))
			continue
		}
		assert.Equal(b.T, "symbolic", where, home)
		user := bed.UID(b, "codex-worker@"+name+".service")
		assert.Equal(b.T, "700 "+user+":"+user, bed.Owner(b, home))
		assert.Empty(b.T, bed.Find(b, home+"/", "!", "(", "-uid", user, "-gid", user, ")"))
		for _, file := range []string{"/auth.json", "/of-root", "/sessions/2026/rollout.jsonl"} {
			_, _, err := b.Run(b.T.Context(), "runuser", "-u", "codex-worker", "--", "cat", home+file)
			assert.Error(b.T, err, file)
		}
		assert.Equal(b.T, "mine\n", b.MustRun(b.T, "cat", home+"/of-root"))
	}
	if apart {
		assert.Empty(b.T, bed.Find(b, "/", "-xdev", "-user", "codex-worker", "-not", "-path", "/srv/project*"))
		worker := append(places(bed.InWorker(b, "default"))["in its unit"], "sh", "-ec", "cat /srv/project/dir/file")
		assert.Equal(b.T, "mine\n", b.MustRun(b.T, worker...), "the workspace of the user of all workers")
	}
}
