// Package integration has a package for each system, which tests the installed package: the built .deb, installed by
// apt in a booted Debian, with the real codex app-server in front of a scripted model endpoint. Most tests boot a Debian
// on which it was installed in advance (machine.Installed); tests of installations install it themselves. What several
// packages use is in test/bed, what one uses is in its own files.
//
// The tests of this package look at those packages.
package integration
