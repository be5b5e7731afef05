// Package wsframe writes the frames of a WebSocket, and answers pings between them.
package wsframe
