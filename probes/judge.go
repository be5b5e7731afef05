package probes

// Facts decide the readiness of one worker: the state of its unit over D-Bus and the
// state of our connection to its socket.
type Facts struct {
	// NoBus: there is no systemd to ask (a container); the connection alone decides.
	NoBus bool
	// ActiveState and SubState are the unit's, from org.freedesktop.systemd1.Unit;
	// both are empty until systemd has reported them.
	ActiveState, SubState string
	// Result is the service's (org.freedesktop.systemd1.Service), "success" without a failure.
	Result string
	// HeldBack: the start of the unit waits for the rest of its restart delay.
	HeldBack bool
	// JobPending: systemd has a job queued for the unit.
	JobPending bool
	// StartLimited: the unit has failed at systemd's start limit.
	StartLimited bool
	// Handshake: on the current connection the worker has answered initialize and listed its models.
	Handshake bool
	// Models is the number of models that the worker listed.
	Models int
	// Lost: a connection of the current activation has ended.
	Lost bool
	// Unmet is the reason of a dependency that is not ready, although the worker's readiness follows it; a final one,
	// if there is one. Empty: all are ready.
	Unmet DependencyReason
	// Bound: without its dependencies the unit does not run (BindsTo=, systemd.unit(5)).
	Bound bool
	// Standby: the service starts the unit when its account is needed.
	Standby bool
	// Draining: an operator or a stop of the service forbids new turns.
	Draining bool
	// Drained: an operator drained the worker; only an operator ends that.
	Drained bool
}

// Judge returns the one reason that holds for a worker. It is Ready only if the
// unit is active, the handshake is done on the current connection, the worker has
// a model, requires no dependency that is not ready, and does not drain.
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
	case f.Handshake && f.Models > 0 && f.Unmet != "":
		return DependencyNotReady
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

// judgeActivating distinguishes the wait before a restart, of systemd (auto-restart) or
// of the unit itself (HeldBack), from a start.
func (f Facts) judgeActivating() Reason {
	if f.HeldBack || f.SubState == "auto-restart" || f.SubState == "auto-restart-queued" {
		return BackingOff
	}
	return Starting
}

// judgeDeactivating distinguishes a requested stop, which is a job or follows
// `systemctl kill`, from systemd's cleanup after a worker that failed (watchdog,
// timeout) or exited.
func (f Facts) judgeDeactivating() Reason {
	if f.Result != "" && f.Result != "success" || !f.JobPending && f.SubState != "stop-sigterm" {
		return WorkerExited
	}
	return Draining
}

// judgeFailed: failed-before-auto-restart lasts an instant and is not final. A job is the start of a requested restart
// after a failed stop. A final failure without a start limit is a failed stop, or the unit has no automatic restarts.
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
	case f.Bound && f.Unmet != "":
		return DependencyNotReady
	case f.Standby && !f.Drained:
		return Standby
	default:
		return Stopped
	}
}
