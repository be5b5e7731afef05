package main

import "context"

// rotating are settings by which the quota of accounts decides.
const rotating = manyPlaces + "[accounts]\nrotation = \"even\"\n"

// rotation compares daemons with ten accounts whose quota decides with others whose quota
// decides nothing: two of each, as a daemon that was started later costs some percent more.
func (b *bench) rotation(ctx context.Context) error {
	var daemons []*daemon
	for _, settings := range []string{manyPlaces, rotating, rotating, manyPlaces} {
		d, err := b.startProgram(ctx, b.program, 10, settings)
		if d != nil {
			defer d.stop()
		}
		if err != nil {
			return err
		}
		daemons = append(daemons, d)
	}
	for _, c := range []struct {
		who string
		load
	}{{"1 client", load{clients: 1, requests: 100}}, {"16 clients", load{clients: 16, requests: 400}}} {
		c.body = chat(askAnswer, false)
		if err := b.rotationRows(ctx, daemons, c.load, "CPU: chat, "+c.who+", 10 accounts, rotation = "); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) rotationRows(ctx context.Context, daemons []*daemon, l load, what string) error {
	var off, ratios []float64
	for round := range 8*b.rounds + 1 {
		cpus, err := b.growthRound(ctx, daemons, l, round%2 == 0)
		switch {
		case err != nil:
			return err
		case round == 0: // that is to warm up
			continue
		}
		off = append(off, micros(cpus[0]+cpus[3])/2)
		ratios = append(ratios, float64(cpus[1]+cpus[2])/float64(cpus[0]+cpus[3]))
	}
	base := quantile(off, 0.5)
	b.result.One(what+`"off"`, "µs", 0, base)
	b.result.One(what+`"even"`, "µs", base*1.03, base*quantile(ratios, 0.5))
	return nil
}
