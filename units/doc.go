// Package units tells what systemd says of our units, and asks it to start and
// stop them, over the system bus (org.freedesktop.systemd1(5)).
//
// Two rules shape it. Anyone on the bus may send a signal, by broadcast or
// straight at our connection: only what the current owner of
// org.freedesktop.systemd1 sends is believed. And a signal may be lost: the
// picture is read anew after every reconnect, after a daemon-reload, and from
// time to time.
package units
