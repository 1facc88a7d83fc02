// SPDX-License-Identifier: Apache-2.0

package parser

import "strings"

// kind is the kind of a token. Keywords follow the other tokens. Keywords are grouped by the names for which they are
// valid, so comparisons with the first keyword of a group determine the group of a keyword.
type kind uint8

// These tokens are not keywords. Single-byte punctuation precedes the other tokens. See singles in lexer.go.
const (
	tEOF kind = iota
	// tError is a lexical error. The lexer holds the details.
	tError
	tIdent
	// tQuoted is a quoted name. tEmptyQuoted is "".
	tQuoted
	tEmptyQuoted
	// tString is a 'string'. tDollar is a $$string$$.
	tString
	tDollar
	tInteger
	tFloat
	tHex
	tUUID
	tDuration
	tNegNaN
	tNegInfinity
	tMark
	tColon
	tSemicolon
	tComma
	tDot
	tRange
	tOpen
	tClose
	tOpenBracket
	tCloseBracket
	tOpenBrace
	tCloseBrace
	tEqual
	tLess
	tLessEqual
	tGreater
	tGreaterEqual
	tNotEqual
	tPlus
	tMinus
	tStar
	tSlash
	tPercent
	tPlusEqual
	tMinusEqual
	// These keywords are reserved words, which are never names.
	kwAdd
	kwAllow
	kwAlter
	kwAnd
	kwApply
	kwAsc
	kwAuthorize
	kwBatch
	kwBegin
	kwBy
	kwTable
	// kwTableSynonym is the keyword TABLE. The lexer converts kwTableSynonym to kwTable, because Cassandra uses the
	// name of the older keyword COLUMNFAMILY.
	kwTableSynonym
	kwCreate
	kwDelete
	kwDesc
	kwDescribe
	kwDrop
	kwEntries
	kwExecute
	kwFalse
	kwFrom
	kwFull
	kwGrant
	kwIf
	kwIn
	kwIndex
	kwInfinity
	kwInsert
	kwInto
	kwIs
	kwKeyspace
	kwLimit
	kwMaterialized
	kwModify
	kwNaN
	kwNoRecursive
	kwNot
	kwNull
	kwOf
	kwOn
	kwOr
	kwOrder
	kwPrimary
	kwRename
	kwRevoke
	kwSchema
	kwSelect
	kwSet
	kwToken
	kwTo
	kwTrue
	kwTruncate
	kwUnlogged
	kwUpdate
	kwUse
	kwUsing
	kwView
	kwWhere
	kwWith
	// The following unreserved words can be any name.
	kwAccess
	kwAggregate
	kwAggregates
	kwAll
	kwANN
	kwAs
	kwCalled
	kwCIDRs
	kwCluster
	kwClustering
	kwCompact
	kwContains
	kwCustom
	kwDatacenters
	kwDefault
	kwExists
	kwFiltering
	kwFinalFunc
	kwFrozen
	kwFunction
	kwFunctions
	kwGroup
	kwHashed
	kwInitCond
	kwInput
	kwInternals
	kwKeys
	kwKeyspaces
	kwLanguage
	kwLike
	kwList
	kwLogin
	kwMap
	kwMasked
	kwMBean
	kwMBeans
	kwNoLogin
	kwNoSuperuser
	kwOnly
	kwOptions
	kwPartition
	kwPassword
	kwPer
	kwPermission
	kwPermissions
	kwReplace
	kwReturns
	kwRole
	kwRoles
	kwSelectMasked
	kwSFunc
	kwStatic
	kwStorage
	kwSType
	kwSuperuser
	kwTables
	kwTrigger
	kwTuple
	kwType
	kwTypes
	kwUnmask
	kwUnset
	kwUser
	kwUsers
	kwValues
	kwVector
	// The following native types can be any name except the name of a user-defined type.
	kwAscii
	kwBigint
	kwBlob
	kwBoolean
	kwCounter
	kwDate
	kwDecimal
	kwDouble
	kwDuration
	kwFloat
	kwInet
	kwInt
	kwSmallint
	kwText
	kwTime
	kwTimestamp
	kwTimeUUID
	kwTinyint
	kwUUID
	kwVarchar
	kwVarint
	// The following keywords have a special syntax in SELECT clauses. They can be names, but not names of functions or
	// types. As exceptions, kwKey can be the name of a type and kwCount can be the name of a function.
	kwCast
	kwCount
	kwDistinct
	kwJSON
	kwKey
	kwMaxWriteTime
	kwTTL
	kwWriteTime
)

const (
	firstReserved = kwAdd
	firstBasic    = kwAccess
	firstType     = kwAscii
	firstSpecial  = kwCast
	lastKeyword   = kwWriteTime
)

// keywords lists the keywords in the order of the constants, starting with firstReserved.
var keywords = [...]string{
	"add", "allow", "alter", "and", "apply", "asc", "authorize", "batch", "begin", "by", "columnfamily", "table",
	"create",
	"delete", "desc", "describe", "drop", "entries", "execute", "false", "from", "full", "grant", "if", "in", "index",
	"infinity", "insert", "into", "is", "keyspace", "limit", "materialized", "modify", "nan", "norecursive", "not",
	"null", "of", "on", "or", "order", "primary", "rename", "revoke", "schema", "select", "set", "token", "to", "true",
	"truncate", "unlogged", "update", "use", "using", "view", "where", "with", "access", "aggregate", "aggregates",
	"all", "ann", "as", "called", "cidrs", "cluster", "clustering", "compact", "contains", "custom", "datacenters",
	"default", "exists", "filtering", "finalfunc", "frozen", "function", "functions", "group", "hashed", "initcond",
	"input", "internals", "keys", "keyspaces", "language", "like", "list", "login", "map", "masked", "mbean", "mbeans",
	"nologin", "nosuperuser", "only", "options", "partition", "password", "per", "permission", "permissions", "replace",
	"returns", "role", "roles", "select_masked", "sfunc", "static", "storage", "stype", "superuser", "tables",
	"trigger", "tuple", "type", "types", "unmask", "unset", "user", "users", "values", "vector", "ascii", "bigint",
	"blob", "boolean", "counter", "date", "decimal", "double", "duration", "float", "inet", "int", "smallint", "text",
	"time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar", "varint", "cast", "count", "distinct", "json", "key",
	"maxwritetime", "ttl", "writetime",
}

// keywordLenMin and keywordLenMax are the minimum and maximum length of a keyword.
const (
	keywordLenMin = 2
	keywordLenMax = 13
)

// keywordTable finds a keyword by the hash of its lower-case spelling. It uses open addressing. Zero marks a free slot.
var keywordTable = buildKeywordTable()

// keywordTableSize is a power of two. The size is about four times the number of keywords.
const keywordTableSize = 1024

func buildKeywordTable() (table [keywordTableSize]kind) {
	put := func(word string, k kind) {
		var h uint32
		for i := 0; i < len(word); i++ {
			h = hashByte(h, word[i])
		}
		slot := h % keywordTableSize
		for table[slot] != 0 {
			slot = (slot + 1) % keywordTableSize
		}
		table[slot] = k
	}
	for i, word := range keywords {
		put(word, firstReserved+kind(i))
	}
	return table
}

// hashByte adds a lower-case byte to the hash that the lexer computes while it scans a word.
func hashByte(h uint32, c byte) uint32 { return h*31 + uint32(c) }

// lookupKeyword returns the keyword that equals word, ignoring case. If word is not a keyword, lookupKeyword returns
// tIdent. h is the hash of the lower-case word.
func lookupKeyword(word string, h uint32) kind {
	for slot := h % keywordTableSize; keywordTable[slot] != 0; slot = (slot + 1) % keywordTableSize {
		k := keywordTable[slot]
		if w := keywords[k-firstReserved]; len(w) == len(word) && equalLower(word, w) {
			if k == kwTableSynonym {
				return kwTable
			}
			return k
		}
	}
	return tIdent
}

// equalLower reports whether word equals lower, ignoring case. word must consist of letters, digits, and underscores.
func equalLower(word, lower string) bool {
	for i := 0; i < len(word); i++ {
		c := word[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func (k kind) isKeyword() bool { return k >= firstReserved && k <= lastKeyword }

// isName reports whether a token can be the name of a keyspace, table, column, field, or role.
func (k kind) isName() bool {
	return k == tIdent || k == tQuoted || k >= firstBasic && k <= lastKeyword
}

// isTypeName reports whether a token can name a user-defined type.
func (k kind) isTypeName() bool {
	return k == tIdent || k == tQuoted || k >= firstBasic && k < firstType || k == kwKey
}

// isFunctionName reports whether a token can name a function.
func (k kind) isFunctionName() bool {
	return k == tIdent || k == tQuoted || k >= firstBasic && k < firstSpecial || k == kwToken || k == kwCount
}

// isNativeType reports whether a token names a native type.
func (k kind) isNativeType() bool { return k >= firstType && k < firstSpecial }

var kindNames = [...]string{
	tEOF: "EOF", tError: "ERROR", tIdent: "IDENT", tQuoted: "QUOTED_NAME", tEmptyQuoted: "EMPTY_QUOTED_NAME",
	tString: "STRING_LITERAL", tDollar: "STRING_LITERAL", tInteger: "INTEGER", tFloat: "FLOAT", tHex: "HEXNUMBER",
	tUUID: "UUID", tDuration: "DURATION", tNegNaN: "K_NEGATIVE_NAN", tNegInfinity: "K_NEGATIVE_INFINITY",
	tMark:  "QMARK",
	tColon: "':'", tSemicolon: "';'", tComma: "','", tDot: "'.'", tRange: "RANGE", tOpen: "'('", tClose: "')'",
	tOpenBracket: "'['", tCloseBracket: "']'", tOpenBrace: "'{'", tCloseBrace: "'}'", tEqual: "'='", tLess: "'<'",
	tLessEqual: "'<='", tGreater: "'>'", tGreaterEqual: "'>='", tNotEqual: "'!='", tPlus: "'+'", tMinus: "'-'",
	tStar: "'*'", tSlash: "'/'", tPercent: "'%'", tPlusEqual: "'+='", tMinusEqual: "'-='",
}

// String returns the token name that Cassandra's messages use.
func (k kind) String() string {
	if k.isKeyword() {
		return "K_" + strings.ToUpper(keywords[k-firstReserved])
	}
	return kindNames[k]
}
