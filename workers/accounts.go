package workers

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/workers/accounts"
)

// Readings counts the readings of the accounts.
func (p *Pool) Readings() prometheus.Collector { return p.readings }

// Refresh reads the account of the named worker, or waits for the reading that is under way.
// The end of ctx ends only this wait. A reading that has just ended counts, too.
func (p *Pool) Refresh(ctx context.Context, name string) error {
	w, err := p.find(name)
	if err != nil {
		return err
	}
	return w.reader.Read(ctx)
}

// AccountStore has the known state of the workers' accounts.
func (p *Pool) AccountStore() *accounts.Store { return p.accountStore }

// AccountsChanged is for every change that the Store reports. It does not block.
func (p *Pool) AccountsChanged() {
	p.markPaused()
	for _, w := range p.roster {
		w.reader.Wake()
	}
	p.Wake()
}

// markPaused notes the pauses of the Store for pick, which does not ask it without a rotation.
func (p *Pool) markPaused() {
	for _, v := range p.accountStore.Views(time.Now()) {
		if w, err := p.find(v.Name); err == nil {
			w.paused.Store(v.Paused)
		}
	}
}
