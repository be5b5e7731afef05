package probes

// Facts are all that the readiness of one worker rests on: systemd's word over
// D-Bus and ours over the socket.
type Facts struct {
	// NoBus: there is no systemd to ask (a container); the connection alone decides.
	NoBus bool
	// ActiveState and SubState are the unit's, from org.freedesktop.systemd1.Unit;
	// both are empty until systemd has been heard.
	ActiveState, SubState string
	// Result is the service's result so far (org.freedesktop.systemd1.Service), "success" while all is well.
	Result string
	// HeldBack: the unit starts, and waits for the rest of its restart delay first.
	HeldBack bool
	// JobPending: systemd has a job queued for the unit.
	JobPending bool
	// StartLimited: the unit has failed because systemd does not start it again.
	StartLimited bool
	// Handshake: initialize was answered and models were listed on the current connection.
	Handshake bool
	// Models is how many models the worker listed.
	Models int
	// Lost: a connection of the current activation has ended.
	Lost bool
	// Draining: an operator or a stop of the service forbids new turns.
	Draining bool
	// Drained: an operator's drain, which nobody else takes back.
	Drained bool
}

// Judge gives the one reason that holds for a worker. It is Ready only if the
// unit is active, the handshake is done on the current connection, models are
// listed and nothing drains.
func Judge(f Facts) Reason {
	if f.NoBus {
		return f.judgeConnection()
	}
	switch f.ActiveState {
	case "active", "reloading", "refreshing":
		return f.judgeConnection()
	case "activating":
		return f.judgeActivating()
	case "deactivating":
		return f.judgeDeactivating()
	case "failed":
		return f.judgeFailed()
	case "inactive":
		return f.judgeInactive()
	default:
		return Starting
	}
}

func (f Facts) judgeConnection() Reason {
	switch {
	case f.Draining:
		return Draining
	case f.Handshake && f.Models > 0:
		return Ready
	case f.Handshake:
		return NoModels
	case f.Lost:
		return HandshakeLost
	default:
		return HandshakePending
	}
}

// judgeActivating distinguishes a wait before a restart, by systemd (auto-restart) or by
// the unit in its place (HeldBack), from a start.
func (f Facts) judgeActivating() Reason {
	if f.HeldBack || f.SubState == "auto-restart" || f.SubState == "auto-restart-queued" {
		return BackingOff
	}
	return Starting
}

// judgeDeactivating tells a stop that somebody asked for, which is a job, or after
// `systemctl kill` the word of the worker, from systemd clearing up after a worker
// that failed (the watchdog, a timeout) or exited.
func (f Facts) judgeDeactivating() Reason {
	if f.Result != "" && f.Result != "success" || !f.JobPending && f.SubState != "stop-sigterm" {
		return WorkerExited
	}
	return Draining
}

// judgeFailed: failed-before-auto-restart lasts an instant and is not final. A job
// is a start that follows: a restart that was asked for, whose stop has ended in a
// failure. A final failure that is no start limit was a stop, too, or the unit may
// not be restarted at all.
func (f Facts) judgeFailed() Reason {
	switch {
	case f.SubState != "failed":
		return WorkerExited
	case f.JobPending:
		return Starting
	case f.StartLimited:
		return StartLimitHit
	default:
		return WorkerExited
	}
}

func (f Facts) judgeInactive() Reason {
	switch {
	case f.SubState == "dead-before-auto-restart":
		return WorkerExited
	case f.JobPending:
		return Starting
	default:
		return Stopped
	}
}
