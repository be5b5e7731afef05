package eventlog

// Path is the file of a log, or of the lock of a process.
func (l *Logs) Path(id string) string { return l.path(id) }

// Files is how many files of logs are open.
func (l *Logs) Files() int64 { return l.files.Load() }
