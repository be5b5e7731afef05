package machine

import "codex-proxy/test/machine/inside"

// Options are the differences between a machine and its root.
type Options = inside.Options

// Bind shows a file or a directory of the host inside a machine.
type Bind = inside.Bind

// File is a file of a machine.
type File = inside.File

// Entry is a file, directory or symbolic link that a machine has before systemd starts.
type Entry = inside.Entry
