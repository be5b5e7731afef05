package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"codex-proxy/test/machine"
)

const (
	readyTimeout = time.Minute
	readyStep    = 50 * time.Millisecond
	probeTimeout = 5 * time.Second
	triesPerLook = 10 // tries of /readyz for one look at the units
)

// awaitReady polls /readyz until the answer is 200. Its error has the reason of the
// last answer, and the journal.
func awaitReady(ctx context.Context, m *machine.Machine) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for tries := 0; ; tries++ {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if tries%triesPerLook == 0 && failed(ctx, m) {
			// Once more, for the reason: the first probe may have come before the proxy listened.
			if err := probe(ctx); err != nil {
				return notReady(context.WithoutCancel(ctx), m, err)
			}
			return nil
		}
		select {
		case <-time.After(readyStep):
		case <-m.Done():
			return errors.New("the machine has stopped")
		case <-ctx.Done():
			return notReady(context.WithoutCancel(ctx), m, err)
		}
	}
}

// failed reports whether systemd has given up on one of our units.
func failed(ctx context.Context, m *machine.Machine) bool {
	_, err := m.Systemctl(ctx, "is-failed", "--quiet", ourUnits)
	return err == nil
}

// probe returns nil when the proxy is ready, else why not.
func probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return fmt.Errorf("%s", reason(res.Status, body))
}

// reason takes health.readiness.reason from the answer, or the answer itself.
func reason(status string, body []byte) string {
	var answer struct {
		Health struct {
			Readiness struct{ Reason string }
		}
	}
	if json.Unmarshal(body, &answer) == nil && answer.Health.Readiness.Reason != "" {
		return answer.Health.Readiness.Reason
	}
	return fmt.Sprintf("%s: %s", status, body)
}

func notReady(ctx context.Context, m *machine.Machine, why error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	units, _ := m.Systemctl(ctx, "list-units", "--all", "--no-legend", "--plain", ourUnits, target)
	journal, _ := m.Journal(ctx, "--lines=60", "--output=short", "--unit="+ourUnits)
	return fmt.Errorf("not ready: %w\n\nunits:\n%s\njournal:\n%s", why, units, journal)
}
