// Package api tests what clients send and get, with the SDKs, the command lines and the raw requests of both APIs.
package api
