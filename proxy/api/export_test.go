package api

import "codex-proxy/proxy/limits"

// SocketMemory is the memory of the conversations that WebSockets remember.
func (a *API) SocketMemory() *limits.Memory { return a.socketMemory }
