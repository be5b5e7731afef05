// Package fetch brings images from the network to the daemon, which has no
// network of its own. Server runs in a unit that can reach the network and
// nothing else of ours; Client, in the daemon, asks it over a unix socket:
//
//	POST /fetch {"url":"https://…"}
//	200 with the bytes of a PNG, JPEG, GIF or WebP image, or
//	400, 503 {"code":"image_type","message":"…"}
//
// The URL comes from a stranger, who must not be able to use this host's place
// in the network: see Limits and forbidden.
package fetch
