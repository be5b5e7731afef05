// Package accounts has the known state of the accounts behind the workers, their quota
// above all, and decides by it which account a turn runs on and which workers are kept
// started. Its decisions are pure functions of values: the pool (workers) and the
// daemon carry them out.
//
// An account has the name of its worker. Workers with logins of the same account at
// OpenAI share one quota.
package accounts
