package remoteconfig

import (
	"cmp"

	"codex-proxy/internal/handstable"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
	"codex-proxy/units"
)

// HashVariable is the variable of the unit with the hash of the file that its drop-in is made of. remote-exec
// compares it with the file: the grants of systemd have to be those in the file.
const HashVariable = "CODEX_REMOTE_SETTINGS"

// ServiceDropIn is the text of the drop-in of the service: all that codex-remote@NAME.service leaves to the file. It
// has no secret: systemd opens the file of the provider's key.
func (s *Settings) ServiceDropIn() []byte {
	var b unitfile.Lines
	s.head(&b)
	b.Add("Description=%s", unitfile.Text(s.Description))
	if len(s.Notify) > 0 {
		b.Add("Wants=%s", units.RemoteNotifySocket(s.Name))
		b.Add("After=%s", units.RemoteNotifySocket(s.Name))
	}
	s.mounts(&b)
	if s.Hands != nil && s.Hands.URL == "" {
		b.Add("Wants=codex-runner.socket")
		b.Add("After=codex-runner.socket")
	}
	b.Add("\n[Service]")
	b.Add("Environment=%s=%s", HashVariable, s.Hash)
	s.owner(&b)
	handsDropIn(s.Hands, &b, TokenIsInput(s))
	input(s, &b)
	s.directories(&b)
	if s.Network == Loopback {
		b.Add("IPAddressDeny=any")
		b.Add("IPAddressAllow=localhost")
	}
	s.add(&b)
	return b.Bytes()
}

// SocketDropIn is the drop-in of the socket: a user that may connect may attach.
func (s *Settings) SocketDropIn() []byte {
	var b unitfile.Lines
	s.head(&b)
	b.Add("Description=Sockets of the %s", unitfile.Text(s.Description))
	b.Add("\n[Socket]")
	b.Add("SocketUser=%s", cmp.Or(s.User, "root"))
	b.Add("SocketGroup=%s", cmp.Or(s.Group, "root"))
	return b.Bytes()
}

// NotifyDropIn is the drop-in of the service that runs the command of [notify]: as the user of the remote, with its
// directories.
func (s *Settings) NotifyDropIn() []byte {
	var b unitfile.Lines
	s.head(&b)
	b.Add("Description=Command of [notify] of the %s", unitfile.Text(s.Description))
	s.mounts(&b)
	b.Add("\n[Service]")
	b.Add("Environment=%s=%s", HashVariable, s.Hash)
	s.owner(&b)
	s.directories(&b)
	return b.Bytes()
}

// NotifySocketDropIn is the drop-in of its socket. A user that systemd makes owns no socket: there the service looks at
// the sender.
func (s *Settings) NotifySocketDropIn() []byte {
	var b unitfile.Lines
	s.head(&b)
	b.Add("Description=Notices of the %s", unitfile.Text(s.Description))
	if s.User != "" {
		b.Add("\n[Socket]")
		b.Add("SocketUser=%s", s.User)
		b.Add("SocketMode=0600")
	}
	return b.Bytes()
}

func (s *Settings) mounts(b *unitfile.Lines) {
	for _, dir := range s.Directories() {
		b.Add("RequiresMountsFor=%s", unitfile.Path(dir))
	}
}

func (s *Settings) head(b *unitfile.Lines) {
	b.Add("# Made of %s at a daemon-reload: edit that file.", s.File)
	b.Add("[Unit]")
}

// input has the one secret that no other process can read, not even of the same user: systemd opens its file.
func input(s *Settings, b *unitfile.Lines) {
	file := ""
	switch {
	case s.Provider != nil && s.Provider.KeyFile != "":
		file = s.Provider.KeyFile
	case TokenIsInput(s):
		file = s.Hands.TokenFile
	}
	if file == "" || s.noInput { // with a missing file systemd could not even start the unit that names the fault
		return
	}
	b.Add("# systemd opens it as root; remote-exec reads it, and no other process can.")
	b.Add("StandardInput=file:%s", unitfile.Text(file))
}

// TokenIsInput reports whether the token of hands elsewhere is the standard input of the unit. If a provider has a key,
// the key is the standard input, and the token a credential, which each process of the unit's user can read.
func TokenIsInput(s *Settings) bool {
	return s.Hands != nil && s.Hands.URL != "" && (s.Provider == nil || s.Provider.KeyFile == "")
}

func (s *Settings) owner(b *unitfile.Lines) {
	if s.User == "" {
		return
	}
	b.Add("DynamicUser=no")
	b.Add("User=%s", s.User)
	b.Add("# Else a stop would delete the shared memory of the user's other processes.")
	b.Add("RemoveIPC=no")
}

// handsDropIn has the unit ask codex-runner for a session, and shows codex an empty workspace. The main process reads
// the repository for codex-runner; codex itself sees neither the repository nor the socket.
func handsDropIn(h *Hands, b *unitfile.Lines, tokenIsInput bool) {
	if h == nil {
		return
	}
	b.Add("TemporaryFileSystem=/workspace:ro")
	if h.URL != "" {
		if !tokenIsInput {
			b.Add("# systemd reads it as root; remote-exec has it, and codex does not.")
			b.Add("LoadCredential=%s:%s", HandsToken, unitfile.Text(h.TokenFile))
		}
		return
	}
	b.Add("SupplementaryGroups=%s", handstable.Group)
	b.Add("# The set-up of the repository runs before the remote is ready.")
	b.Add("TimeoutStartSec=1h")
	if dir := h.RepoDirectory(); settingsfile.InHome(dir) {
		b.Add("BindReadOnlyPaths=%s", unitfile.Path("-"+dir))
	}
}

// directories opens the directories of the file. A missing one is a fault that remote-exec reports.
func (s *Settings) directories(b *unitfile.Lines) {
	for _, dir := range s.Directories() {
		path := unitfile.Path("-" + dir)
		switch writes := s.Sandbox == WorkspaceWrite; {
		case settingsfile.InHome(dir) && writes:
			b.Add("BindPaths=%s", path)
		case settingsfile.InHome(dir):
			b.Add("BindReadOnlyPaths=%s", path)
		case writes:
			b.Add("ReadWritePaths=%s", path)
		}
	}
}

func (l Limits) add(b *unitfile.Lines) {
	if l.Memory != "" {
		b.Add("MemoryMax=%s", l.Memory)
	}
	if l.CPU != "" {
		b.Add("CPUQuota=%s", l.CPU)
	}
	if l.Tasks > 0 {
		b.Add("TasksMax=%d", l.Tasks)
	}
}
