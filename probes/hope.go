package probes

// Hopeful reports whether a worker is ready, or may get ready without anybody
// doing something: requests wait for such a worker and for no other.
func Hopeful(f Facts) bool {
	if f.Drained {
		return false
	}
	switch Judge(f) {
	case StartLimitHit, Stopped, NoModels:
		return false
	case WorkerExited:
		return f.SubState != "failed" // that one is final; failed-before-auto-restart is not
	default:
		return true
	}
}
