package probes

// Recoverable reports whether a worker is ready or may get ready by itself:
// requests wait for such a worker and for no other.
func Recoverable(f Facts) bool {
	if f.Drained {
		return false
	}
	switch Judge(f) {
	case StartLimitHit, Stopped, NoModels:
		return false
	case DependencyNotReady:
		return !f.Unmet.Final()
	case WorkerExited:
		return f.SubState != "failed" // failed is final, failed-before-auto-restart is not
	default:
		return true
	}
}
