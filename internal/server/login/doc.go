// SPDX-License-Identifier: Apache-2.0

// Package login checks names and passwords against the bcrypt hashes of the roles and of the configuration, and the
// keys of clients that were written for Azure Cosmos DB.
//
// Guarantees: (LI1) a password that was right once is right again without waiting for anything, until it is changed;
// (LI2) a login from an address without recent failures never waits for logins from one with them, and of those from
// one that fails now, however many come at once, it waits for one; a right password that has to wait, because its name
// is tried from everywhere, waits for one client of each other network at most; (LI3) a name that does not exist takes
// as long as one that does; (LI4) what strangers can keep busy is bounded: processors, memory, lines of the log and
// those who wait; (LI5) of the clients that show keys of an account those with a wrong one wait longer and longer, and
// those with a right one for nobody. Start at Checker.Authenticate; keys are checked by an Account.
package login
