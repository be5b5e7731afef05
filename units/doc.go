// Package units reports the states of our units, and asks systemd to start and
// stop them, over the system bus (org.freedesktop.systemd1(5)).
//
// Two rules shape it. Every process on the bus may send a signal, by broadcast or to our own connection: the package
// ignores all signals except from the current owner of org.freedesktop.systemd1. And a signal may be lost: the package
// reads all properties again after every reconnect, after a daemon-reload, and from time to time.
package units
