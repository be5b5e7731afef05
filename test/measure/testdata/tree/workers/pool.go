package workers

// Acquire is where a walk ends.
func Acquire(name string) { wait(name) }

func wait(string) {}
