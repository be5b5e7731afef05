// Package integration holds the tests of the installed thing: the built .deb,
// put by apt into a booted Debian, with the real codex app-server in front of
// a model endpoint that the test scripts.
package integration
