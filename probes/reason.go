package probes

// Reason says in one word why a worker, or the whole service, is ready or not.
// The vocabulary is closed: dashboards and runbooks match on it.
type Reason string

const (
	// Starting means that systemd is starting the unit, or nothing is known of it yet.
	Starting Reason = "starting"
	// HandshakePending means that the unit runs and its JSON-RPC handshake has not been answered yet.
	HandshakePending Reason = "handshake_pending"
	// Ready means that the unit runs, the handshake is done and models are listed.
	Ready Reason = "ready"
	// WorkerExited means that the worker's process has exited and systemd has not begun to wait for its restart.
	WorkerExited Reason = "worker_exited"
	// HandshakeLost means that the connection broke and systemd still calls the unit active.
	HandshakeLost Reason = "handshake_lost"
	// BackingOff means that systemd, or before version 254 the unit's own start, waits for the restart delay.
	BackingOff Reason = "backing_off"
	// StartLimitHit means that systemd has given up after too many restarts.
	StartLimitHit Reason = "start_limit_hit"
	// Draining means that no new turns are taken because of a stop, or because an operator wants it so.
	Draining Reason = "draining"
	// Stopped means that the unit is inactive; nobody asked for it to run, or it does not exist.
	Stopped Reason = "stopped"
	// NoModels means that the handshake is done, but the worker advertises no model.
	NoModels Reason = "no_models"
	// NoWorker means that no worker is configured.
	NoWorker Reason = "no_worker"
	// Stuck means that a loop of the service itself does not answer.
	Stuck Reason = "stuck"
)

// hopeful orders the reasons of workers that are not ready from the one that
// may end soonest by itself to the one that needs a person. The first that any
// worker has is the service's reason.
var hopeful = []Reason{
	HandshakePending, Starting, HandshakeLost, WorkerExited, BackingOff,
	Draining, NoModels, Stopped, StartLimitHit,
}

// Reasons is the whole vocabulary.
var Reasons = []Reason{
	Starting, HandshakePending, Ready, WorkerExited, HandshakeLost, BackingOff,
	StartLimitHit, Draining, Stopped, NoModels, NoWorker, Stuck,
}
