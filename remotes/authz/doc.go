// Package authz stands between the clients of a remote and its codex app-server: it relays WebSocket connections,
// decodes each message of a client, and passes on those that the client's role allows.
//
// The proxy does not contain a shell: each client has one, with the rights of the unit. It keeps the
// login and the configuration of the unit, and the pace of approvals of others, from its clients. A message that no
// rule allows is refused (see Methods), and the refusal names the reason, so that a TUI shows it and goes on.
//
// One direction is decoded, the other is copied. A message of a client is joined from its fragments, within bounds,
// because a JSON object can be judged only whole: its last member may be a second "method". Messages of codex are
// copied as they come; the proxy reads their beginnings, to recognise requests of codex, and sends its own answers
// between two messages.
package authz
