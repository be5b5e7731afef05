// Package integration tests the installed package: the built .deb, installed by apt in
// a booted Debian, with the real codex app-server in front of a scripted model
// endpoint.
package integration
