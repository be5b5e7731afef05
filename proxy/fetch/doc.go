// Package fetch brings images from the network to the daemon, which has no network of
// its own. Server runs in a unit that can reach the network and no other part of the
// service; Client, in the daemon, calls it over a unix socket:
//
//	POST /fetch {"url":"https://…"}
//	200 with the bytes of a PNG, JPEG, GIF or WebP image, or
//	400, 503 {"code":"image_type","message":"…"}
//
// The URL is not trusted, and must not reach an address that only this host can reach: see Limits and package
// publicnet.
package fetch
