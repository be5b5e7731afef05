package inside

import "io/fs"

// Options are the differences between a machine and its root. The zero value is a
// machine with a network of its own in which only loopback exists.
type Options struct {
	// ShareNetwork gives the machine the host's network, addresses and ports.
	ShareNetwork bool
	// Disk is a directory of the host, on a file system that an overlay can write to, which keeps the files of the
	// machine: the next one with it has them again, as after a reboot. Empty: they end with the machine.
	Disk string
	// Binds shows files and directories of the host inside the machine.
	Binds []Bind
	// Empty names directories of the root that the machine sees as empty.
	Empty []string
	// Install are made before systemd starts.
	Install []Entry
	// Files are written before systemd starts, after Install.
	Files []File
	// Units are the units whose status and journal Boot prints when the test
	// fails; shell patterns as systemctl takes them.
	Units []string
}

// Bind shows Source of the host at Target in the machine, with all that is
// mounted below it.
type Bind struct {
	Source   string // absolute path on the host
	Target   string // absolute path in the machine; made if missing
	ReadOnly bool
}

// File is a file of the machine; missing directories are made (0755).
type File struct {
	Path string
	Data []byte
	Mode fs.FileMode // 0 means 0644
}
