package bed

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"time"

	"codex-proxy/test/await"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The checks of `codex-proxy doctor`, in order.
const doctorChecks = "systemd units users permissions bus polkit codex sandbox login config databases homes sockets " +
	"service models accounts database hands brokers dependencies remotes here watchdog ports console cgroup clock"

// ofTheHost are the checks whose results depend on the host of the tests.
var ofTheHost = map[string]bool{"cgroup": true, "clock": true}

// diagnosis is the JSON of `codex-proxy doctor`.
type diagnosis struct {
	OK       bool `json:"ok"`
	Findings []struct{ Check, Level, Subject, Detail, Remedy string }
}

// Doctor runs `codex-proxy doctor --json` and returns its exit status, too.
func Doctor(b *Bed) (diagnosis, int) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), Bound)
	defer cancel()
	out, stderr, err := b.Run(ctx, "codex-proxy", "doctor", "--json")
	status := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	}
	var r diagnosis
	require.NoError(b.T, json.Unmarshal([]byte(out), &r), out+stderr)
	var checks []string
	for _, f := range r.Findings {
		if len(checks) == 0 || checks[len(checks)-1] != f.Check {
			checks = append(checks, f.Check)
		}
	}
	assert.Equal(b.T, doctorChecks, strings.Join(checks, " "), "a check is hidden")
	assert.Equal(b.T, r.OK, status == 0)
	return r, status
}

// DoctorFindsNothing requires that no check of ours has a finding.
func DoctorFindsNothing(b *Bed) {
	b.T.Helper()
	r, status := Doctor(b)
	require.Zero(b.T, status, "%+v", r.Findings)
	for _, f := range r.Findings {
		if !ofTheHost[f.Check] {
			require.Equal(b.T, "ok", f.Level, "%+v", f)
		}
	}
}

// DoctorFinds waits for a failure of that check with the text, and returns its remedy: a
// unit that fails repeatedly is starting in between.
func DoctorFinds(b *Bed, check, says string) string {
	b.T.Helper()
	for deadline, pace := time.Now().Add(Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		r, status := Doctor(b)
		if remedy, failed := r.Remedy(check, says); failed {
			require.Equal(b.T, 1, status, "%+v", r)
			return remedy
		}
		require.True(b.T, time.Now().Before(deadline), "not found: %s, %s: %+v", check, says, r.Findings)
	}
}

// Remedy is the remedy of the failure of check with the text.
func (d diagnosis) Remedy(check, says string) (remedy string, failed bool) {
	for _, f := range d.Findings {
		if f.Level == "fail" && f.Check == check && strings.Contains(f.Subject+": "+f.Detail, says) {
			return f.Remedy, true
		}
	}
	return "", false
}

// Forgetful is for workers that fail until they are mended: after half a second of
// health a failure is no longer consecutive.
const Forgetful = "reset_after = \"500ms\"\n"

// Well reports whether the service is ready and its first worker has not failed of late.
func Well(status int, r Report) bool {
	return Ready(status, r) && r.Workers[0].ConsecutiveFailures == 0
}
