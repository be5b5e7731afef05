package main

import "context"

// rotating are settings by which the quota of accounts decides.
const rotating = manyPlaces + "[accounts]\nrotation = \"even\"\n"

// rotation compares a daemon with ten accounts whose quota decides with one whose quota
// decides nothing.
func (b *bench) rotation(ctx context.Context) error {
	daemons, names := make([]*daemon, 2), []string{`rotation = "off"`, `rotation = "even"`}
	for i, settings := range []string{manyPlaces, rotating} {
		d, err := b.startProgram(ctx, b.program, 10, settings)
		if d != nil {
			defer d.stop()
		}
		if err != nil {
			return err
		}
		daemons[i] = d
	}
	for _, c := range []struct {
		who string
		load
	}{{"1 client", load{clients: 1, requests: 200}}, {"16 clients", load{clients: 16, requests: 800}}} {
		c.body = chat(askAnswer, false)
		if err := b.growthWithin(ctx, 1.03, daemons, c.load, func(i int) string {
			return "CPU: chat, " + c.who + ", 10 accounts, " + names[i]
		}); err != nil {
			return err
		}
	}
	return nil
}
