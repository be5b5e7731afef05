package remotes

import (
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
)

// onceWorker has codex send each request once, as the workers with a [provider] do: codex's own provider sends a
// request again that broke off, and the ledger counts what the proxy sends.
const onceWorker = bed.AccountWorker + `[codex]
model_provider = "once"
[codex.model_providers.once]
name = "OpenAI"
base_url = "https://chatgpt.com/backend-api/codex"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
`

// chaosWorker is the worker file of the chaos. The one codex of several accounts sends each request once, to its broker.
func chaosWorker() string {
	if bed.OneProcess() {
		return bed.AccountWorker
	}
	return onceWorker
}

// even has turns on all accounts.
const even = "[accounts]\nrotation = \"even\"\n"

// chaosAccounts are the accounts that lose their quota or their login. There is one more, so that there is always an
// account that has both, and no request may fail for a quota.
var chaosAccounts = []string{"a", "b", "c"}

// anyAccount is one of them.
func (c *chaos) anyAccount() *accountserver.Account {
	return c.bed.Server.Account(chaosAccounts[c.random.IntN(len(chaosAccounts))])
}

// quotaRunsOut ends a quota, which begins anew after some seconds, as it was announced.
func (c *chaos) quotaRunsOut() bool {
	c.exhaust(c.anyAccount(), time.Duration(3+c.random.IntN(5))*time.Second)
	return true
}

func (c *chaos) exhaust(account *accountserver.Account, until time.Duration) {
	hows := []accountserver.Refusals{accountserver.ByStatus, accountserver.InStream, accountserver.MidText}
	account.Refuse(hows[c.random.IntN(len(hows))])
	account.Exhaust(time.Now().Add(until))
}

// quotaResets ends a quota, which begins anew long before the time that was announced.
func (c *chaos) quotaResets() bool {
	account := c.anyAccount()
	c.exhaust(account, time.Hour)
	bed.Pause(c.bed.T.Context(), time.Duration(1000+c.random.IntN(1000))*time.Millisecond)
	account.Reset()
	return true
}

// loginInvalidated revokes a login; an operator logs the worker in again.
func (c *chaos) loginInvalidated() bool {
	account := c.anyAccount()
	account.Invalidate()
	bed.Pause(c.bed.T.Context(), time.Duration(1000+c.random.IntN(1000))*time.Millisecond)
	unit, err := logInAgain(c.bed, account.Name)
	assert.NoError(c.bed.T, err)
	return c.systemctl("restart", unit)
}

// readingHangs leaves the readings of an account without an answer for a while.
func (c *chaos) readingHangs() bool {
	account := c.anyAccount()
	account.Read(accountserver.Hanging)
	bed.Pause(c.bed.T.Context(), time.Duration(2000+c.random.IntN(2000))*time.Millisecond)
	account.Read(accountserver.Answered)
	return true
}
