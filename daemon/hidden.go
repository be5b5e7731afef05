package daemon

import (
	"codex-proxy/broker/brokerstate"
	"codex-proxy/proxy/usage"
)

// mostTokens is more than a request has: a broker passes on the numbers of its endpoint.
const mostTokens = 1 << 40

// chargeHidden counts the use of a request that the codex of a worker has made by itself, for one of these threads.
func (d *Daemon) chargeHidden(worker, account string, threads []string, used brokerstate.Tokens) {
	if account != worker && d.hosts.Of(account) != worker { // no broker reports of other accounts
		return
	}
	d.server.Limiter.Charge(threads, usage.Share{Account: account, Counts: usage.Counts{
		InputTokens: tokens(used.Input), CachedTokens: tokens(used.Cached), OutputTokens: tokens(used.Output)}})
}

func tokens(n uint64) int64 { return int64(min(n, mostTokens)) }
