// Package apitest is the rig of the API's tests: the whole server on a real listener in front of scripted workers, with
// the requests that tests send to it and readers of its answers. Each package below proxy tests its part of the API
// with it.
package apitest
