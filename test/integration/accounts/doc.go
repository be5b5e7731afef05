// Package accounts tests the accounts of workers: their logins, their limits, and whose turn it is.
package accounts
