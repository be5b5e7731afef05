// Package broker lends the logins of accounts to remotes. The main process of a remote asks the service for the account
// that serves it now. The service chooses one, and answers with a connection to the account's worker; over that
// the worker itself sends its login. So the service never has a token.
//
// A connection is a unix socket of packets (SOCK_SEQPACKET), one JSON message a packet. It begins with a word that the
// service sends and the remote sends back: the kernel notes the process that sends it, and so the service knows that
// its peer is the main process of a remote now, and not a process that had its number before.
package broker
