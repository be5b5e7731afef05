package probes

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestJudge(t *testing.T) {
	connected := Facts{Handshake: true, Models: 3}
	for _, tc := range []struct {
		name  string
		facts Facts
		want  Reason
	}{
		{"unit state unknown", Facts{}, Starting},
		{"unit state unknown, connected", connected, Starting},
		{"starting", unit("activating", "start"), Starting},
		{"preparing", unit("activating", "start-pre"), Starting},
		{"the unit waits before its restart", heldBack(unit("activating", "start-pre")), BackingOff},
		{"active, not yet connected", unit("active", "running"), HandshakePending},
		{"active and connected", with(unit("active", "running"), connected), Ready},
		{"reloading and connected", with(unit("reloading", "reload"), connected), Ready},
		{"active, connected, drained", drained(with(unit("active", "running"), connected)), Draining},
		{"active, connected, no models", with(unit("active", "running"), Facts{Handshake: true}), NoModels},
		{"active, connection lost", with(unit("active", "running"), Facts{Lost: true}), HandshakeLost},
		{"active, lost and connected again",
			with(unit("active", "running"), Facts{Lost: true, Handshake: true, Models: 1}), Ready},
		{"exited, restart will follow", unit("failed", "failed-before-auto-restart"), WorkerExited},
		{"exited cleanly, restart will follow", unit("inactive", "dead-before-auto-restart"), WorkerExited},
		{"waiting for the restart", unit("activating", "auto-restart"), BackingOff},
		{"restart queued", unit("activating", "auto-restart-queued"), BackingOff},
		{"operator stops it", queued(with(unit("deactivating", "stop-sigterm"), connected)), Draining},
		{"finishes its turns after systemctl kill", with(unit("deactivating", "stop-sigterm"), connected), Draining},
		{"exited by itself, ExecStop= runs", unit("deactivating", "stop"), WorkerExited},
		{"killed, ExecStop= runs", result(unit("deactivating", "stop"), "signal"), WorkerExited},
		{"watchdog ends it", result(unit("deactivating", "stop-watchdog"), "watchdog"), WorkerExited},
		{"start limit", limited(unit("failed", "failed")), StartLimitHit},
		{"failed while it stopped, start job queued", queued(unit("failed", "failed")), Starting},
		{"the start limit, its job not gone yet", queued(limited(unit("failed", "failed"))), Starting},
		{"failed for good without a restart", unit("failed", "failed"), WorkerExited},
		{"stopped", unit("inactive", "dead"), Stopped},
		{"stopped, start job queued", Facts{ActiveState: "inactive", SubState: "dead", JobPending: true}, Starting},
		{"a standby", standby(unit("inactive", "dead")), Standby},
		{"a standby that an operator has drained", standby(Facts{ActiveState: "inactive", Drained: true}), Stopped},
		{"a standby, start job queued", standby(queued(unit("inactive", "dead"))), Starting},
		{"a standby that runs", standby(with(unit("active", "running"), connected)), Ready},
		{"a standby that is given up", standby(limited(unit("failed", "failed"))), StartLimitHit},
		{"not active although connected", with(unit("inactive", "dead"), connected), Stopped},
		{"a state of a future systemd", unit("levitating", ""), Starting},
		{"no bus, not connected", Facts{NoBus: true}, HandshakePending},
		{"no bus, connected", Facts{NoBus: true, Handshake: true, Models: 1}, Ready},
		{"no bus, lost", Facts{NoBus: true, Lost: true}, HandshakeLost},
		{"no bus, drained", Facts{NoBus: true, Handshake: true, Models: 1, Draining: true}, Draining},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, Judge(tc.facts)) })
	}
}

// Ready needs all of its conditions: without any one of them the reason is another.
func TestReadyNeedsEverything(t *testing.T) {
	for _, active := range []string{"", "active", "reloading", "activating", "deactivating", "failed", "inactive"} {
		for bits := range 8 {
			f := Facts{ActiveState: active, Handshake: bits&1 != 0, Draining: bits&4 != 0}
			if bits&2 != 0 {
				f.Models = 2
			}
			want := (active == "active" || active == "reloading") && f.Handshake && f.Models > 0 && !f.Draining
			assert.Equal(t, want, Judge(f) == Ready, "%+v", f)
		}
	}
}

func unit(active, sub string) Facts {
	return Facts{ActiveState: active, SubState: sub, Result: "success"}
}

func standby(f Facts) Facts {
	f.Standby = true
	return f
}

func with(f, connection Facts) Facts {
	f.Handshake, f.Models, f.Lost = connection.Handshake, connection.Models, connection.Lost
	return f
}

func heldBack(f Facts) Facts              { f.HeldBack = true; return f }
func queued(f Facts) Facts                { f.JobPending = true; return f }
func drained(f Facts) Facts               { f.Draining = true; return f }
func limited(f Facts) Facts               { f.StartLimited = true; return f }
func result(f Facts, result string) Facts { f.Result = result; return f }
