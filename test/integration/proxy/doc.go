// Package proxy tests the proxy as a service: its starts, reloads, stops, faults and limits.
package proxy
