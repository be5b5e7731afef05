package probes

import "time"

// Snapshot is the state of the service at one instant.
type Snapshot struct {
	At       time.Time
	Draining bool   // the service itself drains
	Stuck    string // the service's own loops that do not answer; empty if all do
	Workers  []Worker
	Queue    Queue
	// Dependencies are the dependencies with a file or required by a file, in the order of their names.
	Dependencies []Dependency
	// Remotes are the remotes with a file, in the order of their names. No readiness depends on them.
	Remotes []Remote
	// Brokers are the brokers of workers, in the order of the configuration. No readiness depends on them.
	Brokers []Broker
	// Database is the database that several hosts share; nil without one. No readiness depends on it.
	Database *Database
	// ReadyWhenExhausted makes QuotaExhausted count as ready. QuotaBack is when an account
	// may have quota again; zero: unknown.
	ReadyWhenExhausted bool
	QuotaBack          time.Time
}

// Worker is the published state of one worker, in the JSON of the probes.
type Worker struct {
	Name                string     `json:"name"`
	Unit                string     `json:"unit"`
	ActiveState         string     `json:"active_state"`
	SubState            string     `json:"sub_state"`
	MainPID             uint32     `json:"main_pid"`
	InvocationID        string     `json:"invocation_id,omitempty"`
	StatusText          string     `json:"status_text,omitempty"`
	Ready               bool       `json:"ready"`
	Reason              Reason     `json:"reason"`
	Handshake           *Handshake `json:"handshake"`
	RestartsTotal       uint64     `json:"restarts_total"`
	OOMKillsTotal       uint64     `json:"oom_kills_total"`
	ConsecutiveFailures uint64     `json:"consecutive_failures"`
	NextRestartAt       *time.Time `json:"next_restart_at"`
	LastExit            *Exit      `json:"last_exit"`
	LastReadyAt         *time.Time `json:"last_ready_at"`
	StartupLatencyMS    float64    `json:"startup_latency_ms"`
	Inflight            int        `json:"inflight"`
	// Drained: an operator has forbidden new turns, until the undrain.
	Drained bool `json:"drained"`
	// Unmet are the names of the dependencies without which the worker is not ready.
	Unmet []string `json:"unmet,omitempty"`
	// Fault describes the fault of a worker with an active unit.
	Fault string `json:"fault,omitempty"`
	// Transitions are the last changes of Reason, oldest first. They show a restart
	// after it is over.
	Transitions []Transition `json:"transitions"`
	// Out is why the worker's account runs no turns, although the worker could:
	// QuotaExhausted, LoginInvalid, or Draining if an operator has paused it. Empty: it runs
	// them.
	Out Reason `json:"-"`
}

// Transition is one change of a worker's reason.
type Transition struct {
	Reason Reason    `json:"reason"`
	At     time.Time `json:"at"`
}

// Handshake is the worker's answer on its current connection.
type Handshake struct {
	At        time.Time `json:"at"`
	UserAgent string    `json:"user_agent"`
	Models    []string  `json:"models"`
}

// Exit is the last end of the worker's process, in systemd's terms: the service's
// Result, the wait code (exited, killed, dumped) and the exit status or signal name.
type Exit struct {
	Result string    `json:"result"`
	Code   string    `json:"code"`
	Status string    `json:"status"`
	At     time.Time `json:"at"`
}

// OutOfMemory reports whether the kernel has killed the process for lack of memory.
func (e *Exit) OutOfMemory() bool { return e != nil && e.Result == "oom-kill" }

// OutOfMemoryRemedy is the advice for an operator after such a kill.
func OutOfMemoryRemedy(unit string) string {
	return "journalctl -k --grep=oom-kill names what took the memory, and whose limit it met; " +
		"systemctl set-property " + unit + " MemoryMax=SIZE sets another one"
}

// failed reports whether systemd has given up on the unit and is not starting it now.
func (w Worker) failed() bool {
	return w.ActiveState == "failed" && w.SubState == "failed" && w.Reason != Starting
}
