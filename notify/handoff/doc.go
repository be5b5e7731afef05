// Package handoff replaces the running process of a unit by one of the installed
// program. Both processes hold one end of a socket pair and exchange packets, one JSON
// object each, with a kind and a version:
//
//	old → new  hello   with the listening sockets (SCM_RIGHTS), their names, and
//	                   the state that the new process needs before it could serve
//	new → old  ready   the new process could serve; or failed, with the reason
//	           the old process makes the new one the unit's main process
//	old → new  take    with the state that the new process takes over
//	new → old  taken   the new process serves, and has sent READY=1
//	new → old  drain, hasten: the orders of the service manager
//	new → old  drains, keys, load: changes that concern the old process
//	old → new  turns   the work in flight of the old process
//	old → new  link    a connection with which the new process goes on (SCM_RIGHTS)
//
// A process ignores kinds that it does not know, and logs them. The versions in hello
// and ready decide how later messages are sent: a process without a version (codex-proxy
// 0.1.0) gets and sends drains, keys, load and turns as "news" without a kind of their
// own, and ignores all other kinds.
//
// The end of a process closes its end of the pair. Until the old process has sent take,
// it can go back at any time: only one more process runs.
package handoff
