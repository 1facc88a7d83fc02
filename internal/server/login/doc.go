// SPDX-License-Identifier: Apache-2.0

// Package login checks user names and passwords against the bcrypt hashes of roles and of the configuration, and
// account keys of Azure Cosmos DB clients.
//
// Guarantees: (LI1) Once a password has been correct, it is accepted without waiting until it is changed. (LI2) A login
// from an address without recent failures never waits for logins from addresses with failures. It waits for at most one
// login from an address that is currently failing. A correct password for a user name that is being guessed from many
// networks waits for at most one client of every other network. (LI3) A login with an unknown user name takes as long
// as a login with a known name. (LI4) Unauthenticated clients can use only a bounded amount of processor time, memory,
// log messages, and queue slots. (LI5) Clients with a wrong account key wait increasingly long, and clients with a
// correct key do not wait. Start reading at Checker.Authenticate. Account checks keys.
package login
