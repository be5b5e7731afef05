package workers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// accountAttacks are scripts that look for the login of any account, each with a part of its output, which proves that
// it ran. The pattern does not find itself.
var accountAttacks = map[string]struct{ script, want string }{
	"environment": {`cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\0' '\n' | grep -E '(refresh-|\.)SECRE[T]'; echo looked`, "looked"},
	"files":       {`grep -rsahoE '(refresh-|\.)SECRE[T]' --exclude-dir=proc --exclude-dir=usr --exclude-dir=codex /*; echo looked`, "looked"},
	"homes": {`cat /var/lib/codex-worker/*/auth.json /var/lib/private/*/*/auth.json /var/lib/codex-login/*/auth.json
ls /run/codex-login-own /run/codex-login-run; echo looked`, noFile},
	"broker":  {`bash -c 'exec 3<>/dev/tcp/127.0.0.1/8790 && echo connected' || echo closed`, "closed"},
	"OpenAI":  {`bash -c 'exec 3<>/dev/tcp/127.0.0.1/443 && echo connected' || echo closed`, "closed"},
	"sockets": {`find /run /tmp -type s; echo looked`, "looked"},
}

// A native worker has the login of an account, or its codex serves several accounts (bed.OneProcess): with each of them
// the model runs commands, and finds no login of any account.
func TestNativeAccounts(t *testing.T) {
	if !nightly.Is() && !bed.OneProcess() {
		t.Skip("TestToolsOfANativeWorkerFindNoLogin has the tools of a worker with a login")
	}
	bed.EitherSuite(t, testNativeAccounts)
}

func testNativeAccounts(t *testing.T, suite string) {
	worker := strings.Replace(bed.AccountWorker, "plain", "native", 1)
	const config = "[models.aliases]\n\"" + bed.Model + "\" = { model = \"" + bed.OpenAIModel + "\" }\n" +
		"[accounts]\nrotation = \"ordered\"\norder = [\"a\", \"b\"]\n"
	b := bed.WithAccounts(bed.New(t, suite, worker, config), worker, "a", "b")
	b.Start()
	b.UntilWorkersReady()
	for i, account := range b.Workers {
		if i > 0 {
			b.MustRun(t, "codex-proxy", "accounts", "switch", account)
		}
		serving := b.Serving()[min(i, len(b.Serving())-1)]
		assert.Contains(t, command(b.Bed, "id -u; pwd"), bed.UID(b.Bed, "codex-worker@"+serving+".service")+`\n/var/lib/`)
		for name, a := range accountAttacks {
			write(b.Bed, tryFile, a.script)
			assert.Contains(t, command(b.Bed, "sh "+tryFile+" 2>&1"), a.want, "%s, %s", name, account)
		}
		assert.NotEmpty(t, b.Server.Account(account).Record().Turns, account)
	}
	for _, turn := range b.Models.Turns() {
		for _, item := range turn.Body.Input {
			assert.NotRegexp(t, `(refresh-|\.)SECRET`, string(item))
			assert.NotContains(t, string(item), `connected\n`)
		}
	}
}

// command makes the model of an account call codex's shell tool, which is a function there, and returns the result that
// codex reports to the model.
func command(b *bed.Bed, text string) string {
	b.T.Helper()
	call, err := json.Marshal(map[string]any{"cmd": text, "login": false, "yield_time_ms": 30_000})
	require.NoError(b.T, err)
	return result(b, "call exec_command "+string(call))
}
