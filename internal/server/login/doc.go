// SPDX-License-Identifier: Apache-2.0

// Package login checks user names and passwords against the bcrypt hashes of roles and of the configuration. It also
// checks the account keys of Azure Cosmos DB clients.
//
// Guarantees: (LI1) After a password has been correct once, it is accepted without a wait until it is changed. (LI2) A
// login from an address without recent failures never waits for logins from addresses with failures. It waits for at
// most one login from an address with current failures. If a user name is being guessed from many networks, a login
// with its correct password waits for at most one client of every other network. (LI3) A login with an unknown user
// name takes as long as a login with a known name. (LI4) Unauthenticated clients can use only a bounded amount of
// processor time, memory, log messages, and queue slots. (LI5) Clients with a wrong account key wait increasingly
// long. Clients with a correct key do not wait. Start reading at Checker.Authenticate. Account.Authenticate checks
// keys.
package login
