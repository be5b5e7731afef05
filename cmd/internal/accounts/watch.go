package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/cmd/internal/cli"
)

// watchPause is the time between two looks. Limits change with each turn, and units by
// themselves, so that no single event covers all that is shown.
const watchPause = time.Second

// clearScreen moves to the top left and erases the screen (ECMA-48).
const clearScreen = "\x1b[H\x1b[2J"

// watch shows every change until SIGINT, SIGTERM or the end of ctx; a terminal always has
// the present page.
func (a *Accounts) watch(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	a.warned = map[string]bool{}
	redraw := cli.IsTerminal(a.Stdout) && !a.JSON
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	var shown []byte
	for {
		list, err := a.collect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if shown, err = a.show(list, shown, redraw); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// show shows a list unless it is the one that was shown, and returns it as JSON.
func (a *Accounts) show(list accountList, shown []byte, redraw bool) ([]byte, error) {
	now, err := json.Marshal(list)
	if err != nil || !redraw && bytes.Equal(now, shown) {
		return now, err
	}
	page, err := a.page(list)
	if err != nil {
		return nil, err
	}
	switch {
	case redraw:
		page = append([]byte(clearScreen), page...)
	case shown != nil && !a.JSON:
		fmt.Fprintln(a.Stdout)
	}
	_, err = a.Stdout.Write(page)
	return now, err
}
