package hands

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"codex-proxy/codex/jsonscan"
)

const (
	// takenName is the file of the sessions of codex at an exec-server elsewhere.
	takenName = "elsewhere.json"
	// mostSessions and mostProcesses bound the file. Each command of a person has a session.
	mostSessions, mostProcesses = 64, 512
)

// takenSession is a session of codex at an exec-server, with its processes that run.
type takenSession struct {
	ID        string   `json:"id"`
	Processes []string `json:"processes,omitempty"`
}

// taken are the sessions of this codex and of an earlier one. The file outlives the main process: the next one ends
// the processes that still run.
type taken struct {
	file   string
	logger *slog.Logger

	mu       sync.Mutex
	sessions []takenSession
}

func newTaken(dir string, logger *slog.Logger) *taken {
	t := &taken{file: filepath.Join(dir, takenName), logger: logger}
	if text, err := readOwnFile(dir, takenName); err == nil {
		_ = json.Unmarshal(text, &t.sessions) // of no use else: the exec-server ends them within 80 s
	}
	return t
}

func (t *taken) all() []takenSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.sessions)
	for i := range all {
		all[i].Processes = slices.Clone(all[i].Processes)
	}
	return all
}

func (t *taken) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = nil
	t.write()
}

// began records a session.
func (t *taken) began(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.ContainsFunc(t.sessions, func(s takenSession) bool { return s.ID == id }) {
		return
	}
	t.sessions = append(t.sessions, takenSession{ID: id})
	t.sessions = t.sessions[max(0, len(t.sessions)-mostSessions):]
	t.write()
}

// left forgets a session that has no process any more.
func (t *taken) left(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = slices.DeleteFunc(t.sessions, func(s takenSession) bool { return s.ID == id })
	t.write()
}

// started records a process before it starts.
func (t *taken) started(session, process string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.sessions {
		if s := &t.sessions[i]; s.ID == session {
			s.Processes = append(s.Processes, process)
			s.Processes = s.Processes[max(0, len(s.Processes)-mostProcesses):]
			t.write()
		}
	}
}

// ended takes processes that have ended out of the record.
func (t *taken) ended(session string, processes ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.sessions {
		if s := &t.sessions[i]; s.ID == session && len(processes) > 0 {
			s.Processes = slices.DeleteFunc(s.Processes, func(id string) bool { return slices.Contains(processes, id) })
			t.write()
		}
	}
}

// write replaces the file, which has to outlive this process and not the host: the exec-server ends the processes of a
// lost connection. The caller holds the lock.
func (t *taken) write() {
	text, err := json.Marshal(t.sessions)
	if err == nil {
		err = os.WriteFile(t.file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(t.file+".new", t.file)
	}
	if err != nil {
		t.logger.Error("the record of the hands is not written", "error", err)
	}
}

// session is one connection of codex to an exec-server elsewhere, as the relay sees it.
type farSession struct {
	taken *taken

	mu sync.Mutex
	id string // empty: not known yet
}

// answered finds the id of the session in the answer to initialize, and the ends of processes.
func (s *farSession) answered(beginning []byte, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	searched, name := beginning, `"sessionId"`
	if s.id != "" {
		searched, name = beginning[:min(len(beginning), headOfMessage)], `"`+exitedMethod+`"`
	}
	if !whole || !bytes.Contains(searched, []byte(name)) {
		return
	}
	var m struct {
		Method string `json:"method"`
		Result struct {
			Session string `json:"sessionId"`
		} `json:"result"`
		Params struct {
			Process string `json:"processId"`
		} `json:"params"`
	}
	switch err := jsonscan.Unmarshal(beginning, &m); {
	case err != nil:
	case s.id != "" && m.Method == exitedMethod:
		s.taken.ended(s.id, m.Params.Process)
	case s.id == "" && m.Result.Session != "":
		s.id = m.Result.Session
		s.taken.began(s.id)
	}
}

// starts records a process.
func (s *farSession) starts(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != "" {
		s.taken.started(s.id, process)
	}
}
